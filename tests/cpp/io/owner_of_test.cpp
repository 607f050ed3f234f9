#include <penstock/io/owner_of.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>

#include <gtest/gtest.h>

#include <penstock/io/timer_queue.hpp>

namespace {

using penstock::io::owner_of;

struct Part {
    int number = 0;
};

struct First {
    Part part;
    std::string name = "first";
};

struct Behind {
    char before = 'b';
    std::string name = "behind";
    Part part;
    Part second;
};

class Polymorphic {
public:
    Polymorphic() = default;
    Polymorphic(const Polymorphic&) = delete;
    Polymorphic& operator=(const Polymorphic&) = delete;
    virtual ~Polymorphic() = default;
    [[nodiscard]] virtual int answer() const { return 42; }

    Part part;
};

struct Other {
    std::int64_t filler = 0;
};

struct Derived : Other, Behind {
    int more = 0;
};

class Hidden {
public:
    Part& part() { return before_ == 0 ? part_ : other_; }
    static Hidden& of(Part& part) { return owner_of<&Hidden::part_>(part); }

private:
    std::int64_t before_ = 0;
    Part part_;
    Part other_;
};

TEST(OwnerOf, FindsTheOwnerOfAMemberAtAnyOffset) {
    First first;
    EXPECT_EQ(&owner_of<&First::part>(first.part), &first);
    Behind behind;
    EXPECT_EQ(&owner_of<&Behind::part>(behind.part), &behind);
    EXPECT_EQ(&owner_of<&Behind::second>(behind.second), &behind);
    EXPECT_EQ(owner_of<&Behind::second>(behind.second).name, "behind");
}

TEST(OwnerOf, FindsAnOwnerThatHasVirtualFunctions) {
    const auto owner = std::make_unique<Polymorphic>();
    EXPECT_EQ(&owner_of<&Polymorphic::part>(owner->part), owner.get());
    EXPECT_EQ(owner_of<&Polymorphic::part>(owner->part).answer(), 42);
}

TEST(OwnerOf, YieldsTheBaseWhoseMemberItIs) {
    Derived derived;
    Behind& base = owner_of<&Derived::part>(derived.part);
    EXPECT_EQ(&base, &derived);
    EXPECT_EQ(&static_cast<Derived&>(base), &derived);
}

TEST(OwnerOf, ReachesPrivateMembersFromWithinTheClass) {
    Hidden hidden;
    EXPECT_EQ(&Hidden::of(hidden.part()), &hidden);
}

TEST(OwnerOf, FindsTheOwnerThroughNestedMembers) {
    struct Handle {
        explicit Handle(penstock::io::Work::Run run) : timer(run) {}
        std::int64_t filler = 0;
        penstock::io::Timer timer;
    };
    Handle handle(nullptr);
    auto& timer = owner_of<&penstock::io::Timer::work>(handle.timer.work);
    EXPECT_EQ(&timer, &handle.timer);
    EXPECT_EQ(&owner_of<&Handle::timer>(timer), &handle);
}

TEST(OwnerOf, KeepsConstnessAndThrowsNothing) {
    const Behind behind;
    static_assert(std::is_same_v<decltype(owner_of<&Behind::part>(behind.part)), const Behind&>);
    Behind changeable;
    static_assert(std::is_same_v<decltype(owner_of<&Behind::part>(changeable.part)), Behind&>);
    static_assert(noexcept(owner_of<&Behind::part>(changeable.part)));
    EXPECT_EQ(&owner_of<&Behind::part>(behind.part), &behind);
}

} // namespace
