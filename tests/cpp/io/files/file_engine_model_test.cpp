// Random file operations, cancels and restarts against a model that keeps every byte, on each
// engine.

#include <penstock/io/event_loop.hpp>
#include <penstock/io/files/file_engine.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include "support/descriptors.hpp"
#include "support/file_engines.hpp"

namespace {

using penstock::io::EventLoop;
using penstock::io::FileEngine;
using penstock::io::FileOperation;
using penstock::testing::Descriptor;
using penstock::testing::FileEngineNames;
using penstock::testing::FileEngines;
using penstock::testing::OnEachFileEngine;
using penstock::testing::opened;
using penstock::testing::Pipe;

constexpr std::size_t cell_count = 16;
constexpr std::size_t cell_size = 700;
constexpr std::size_t slot_count = 40;
constexpr unsigned most_waiting = 6;
constexpr char untouched = '#';

/// The program under test: a file of cells, each with at most one operation, so that its content is
/// known; a pipe whose reads may wait for ever; reads of whole files; opens.
class Model {
public:
    enum class Driver { event_loop, foreign_loop };

    Model(std::unique_ptr<FileEngine> engine, Driver driver, unsigned seed, const std::string& path,
          const std::string& small)
        : engine_(std::move(engine)), driver_(driver), random_(seed), path_(path), small_(small),
          file_(opened(path, O_RDWR)), content_(cell_count * cell_size, '.'),
          operations_(slot_count) {
        EXPECT_EQ(::pwrite(file_.get(), content_.data(), content_.size(), 0),
                  static_cast<ssize_t>(content_.size()));
        EXPECT_TRUE(driver_ == Driver::foreign_loop || !loop_.attach(*engine_));
        for (auto& operation : operations_) {
            operation = std::make_unique<Slot>(*this);
        }
    }

    ~Model() {
        if (driver_ == Driver::event_loop) {
            loop_.detach_files();
        }
    }
    Model(const Model&) = delete;
    Model& operator=(const Model&) = delete;

    void step() {
        switch (below(9)) {
        case 0:
        case 1:
        case 2:
        case 3:
            start(*operations_[below(slot_count)]);
            break;
        case 4:
            engine_->cancel(*operations_[below(slot_count)]);
            break;
        case 5:
            feed();
            break;
        case 6:
            turn(0);
            break;
        case 7:
            if (engine_->in_flight() != 0) {
                feed(); // so that one of them always ends
                turn(-1);
            }
            break;
        default:
            if (below(64) == 0) {
                engine_->cancel_all();
            }
            break;
        }
    }

    void finish() {
        engine_->cancel_all();
        while (engine_->in_flight() != 0) {
            turn(-1);
        }
        engine_->close();
        std::string found(content_.size(), '\0');
        EXPECT_EQ(::pread(file_.get(), found.data(), found.size(), 0),
                  static_cast<ssize_t>(found.size()));
        for (std::size_t i = 0; i < found.size(); ++i) {
            ASSERT_TRUE(found[i] == content_[i] || content_[i] == '?') << "byte " << i;
        }
        // Every byte written to the pipe was read, in some order, or is still in it.
        std::string rest(fed_.size() + 1, '\0');
        ASSERT_EQ(::fcntl(pipe_.out.get(), F_SETFL, O_NONBLOCK), 0);
        const ssize_t left = ::read(pipe_.out.get(), rest.data(), rest.size());
        drained_ += rest.substr(0, static_cast<std::size_t>(std::max<ssize_t>(left, 0)));
        std::sort(fed_.begin(), fed_.end());
        std::sort(drained_.begin(), drained_.end());
        EXPECT_EQ(drained_, fed_);
    }

    std::size_t completed = 0;
    std::size_t cancelled = 0;

private:
    struct Slot : FileOperation {
        explicit Slot(Model& owner) : FileOperation(&on_done), model(owner) {}
        static void on_done(FileOperation& operation, std::int64_t result) {
            auto& self = static_cast<Slot&>(operation);
            self.model.check(self, result);
        }

        Model& model;
        std::string memory;
        std::size_t cell = 0;
        std::size_t begin = 0;
    };

    /// One iteration of an `EventLoop`, or of a level-triggered loop.
    void turn(int timeout) {
        if (driver_ == Driver::event_loop) {
            loop_.run_once(timeout);
            return;
        }
        pollfd watched{.fd = engine_->descriptor(), .events = POLLIN, .revents = 0};
        if (engine_->flush() || ::poll(&watched, 1, timeout) > 0) {
            engine_->process();
        }
    }

    std::size_t below(std::size_t limit) { return random_() % limit; }

    void start(Slot& slot) {
        if (slot.in_flight()) {
            return;
        }
        slot.cell = below(cell_count);
        const std::size_t offset = below(cell_size);
        slot.begin = slot.cell * cell_size + offset;
        const std::size_t size = 1 + below(cell_size - offset);
        switch (below(6)) {
        case 0:
        case 1:
            if (std::exchange(cells_[slot.cell], true)) {
                return;
            }
            slot.memory.assign(size, untouched);
            slot.to_read(file_.get(), slot.memory.data(), size, position(slot),
                         below(2) == 0 ? FileOperation::Extent::once
                                       : FileOperation::Extent::whole);
            break;
        case 2:
            if (std::exchange(cells_[slot.cell], true)) {
                return;
            }
            slot.memory.assign(size, static_cast<char>('a' + below(26)));
            slot.to_write(file_.get(), slot.memory.data(), size, position(slot));
            break;
        case 3:
            if (waiting_ == most_waiting) {
                return;
            }
            ++waiting_;
            slot.memory.assign(1 + below(4), untouched);
            slot.to_read(pipe_.out.get(), slot.memory.data(), slot.memory.size(),
                         FileOperation::current_position);
            break;
        case 4:
            slot.memory.assign(below(30), untouched);
            slot.to_read_file(small_.c_str(), slot.memory.data(), slot.memory.size(),
                              [](FileOperation& operation, std::size_t room) {
                                  auto& self = static_cast<Slot&>(operation);
                                  self.memory.resize(room, untouched);
                                  return static_cast<void*>(self.memory.data());
                              });
            break;
        default:
            slot.to_open(below(2) == 0 ? path_.c_str() : "/nowhere/at/all", O_RDONLY);
            break;
        }
        ASSERT_FALSE(engine_->start(slot));
    }

    static std::int64_t position(const Slot& slot) { return static_cast<std::int64_t>(slot.begin); }

    void check(Slot& slot, std::int64_t result) {
        EXPECT_FALSE(slot.in_flight());
        ++(result == -ECANCELED ? cancelled : completed);
        switch (slot.kind) {
        case FileOperation::Kind::read:
            slot.fd == pipe_.out.get() ? check_pipe(slot, result) : check_read(slot, result);
            break;
        case FileOperation::Kind::write:
            check_write(slot, result);
            break;
        case FileOperation::Kind::read_file:
            EXPECT_TRUE(result == -ECANCELED || result == 20) << result;
            if (result == 20) {
                EXPECT_EQ(slot.memory.substr(0, 20), "twenty bytes of file");
            }
            break;
        default:
            if (result >= 0) {
                EXPECT_EQ(slot.path, path_.c_str());
                ::close(static_cast<int>(result));
            } else {
                EXPECT_TRUE(result == -ECANCELED || result == -ENOENT) << result;
            }
            break;
        }
        if (below(8) == 0) {
            start(slot);
        }
    }

    void check_read(Slot& slot, std::int64_t result) {
        cells_[slot.cell] = false;
        ASSERT_TRUE(result > 0 || result == -ECANCELED) << result;
        for (std::size_t i = 0; i < slot.transferred; ++i) {
            ASSERT_TRUE(slot.memory[i] == content_[slot.begin + i] ||
                        content_[slot.begin + i] == '?');
        }
        for (std::size_t i = slot.transferred; result >= 0 && i < slot.memory.size(); ++i) {
            ASSERT_EQ(slot.memory[i], untouched);
        }
    }

    // A cancelled write has written at least what it reports, and may have written more of its
    // data.
    void check_write(Slot& slot, std::int64_t result) {
        cells_[slot.cell] = false;
        ASSERT_TRUE(result == static_cast<std::int64_t>(slot.memory.size()) || result == -ECANCELED)
            << result;
        for (std::size_t i = 0; i < slot.memory.size(); ++i) {
            const bool sure = i < slot.transferred || slot.memory[i] == content_[slot.begin + i];
            content_[slot.begin + i] = sure ? slot.memory[i] : '?';
        }
    }

    void check_pipe(Slot& slot, std::int64_t result) {
        --waiting_;
        ASSERT_TRUE(result > 0 || result == -ECANCELED) << result;
        const auto size = static_cast<std::size_t>(std::max<std::int64_t>(result, 0));
        drained_ += slot.memory.substr(0, size);
        EXPECT_EQ(slot.memory.substr(size), std::string(slot.memory.size() - size, untouched));
    }

    void feed() {
        if (fed_.size() < 60000) {
            const std::string bytes(1 + below(6), static_cast<char>('A' + below(26)));
            ASSERT_EQ(::write(pipe_.in.get(), bytes.data(), bytes.size()),
                      static_cast<ssize_t>(bytes.size()));
            fed_ += bytes;
        }
    }

    std::unique_ptr<FileEngine> engine_;
    Driver driver_;
    EventLoop loop_;
    std::mt19937 random_;
    std::string path_;
    std::string small_;
    Descriptor file_;
    Pipe pipe_;
    std::array<bool, cell_count> cells_{}; ///< those that have an operation
    std::string content_;                  ///< '?': a cancelled write may have written this byte
    unsigned waiting_ = 0;                 ///< reads of the pipe
    std::string fed_;
    std::string drained_;
    std::vector<std::unique_ptr<Slot>> operations_;
};

template <typename Kind> class FileEngineModel : public OnEachFileEngine<Kind> {};

TYPED_TEST_SUITE(FileEngineModel, FileEngines, FileEngineNames);

TYPED_TEST(FileEngineModel, KeepsEveryByte) {
    this->engine.reset();
    const std::size_t descriptors = penstock::testing::open_descriptors();
    const std::string path = this->folder.file("file");
    const std::string small = this->folder.file("small", "twenty bytes of file");
    std::size_t completed = 0;
    std::size_t cancelled = 0;
    for (unsigned seed = 0; seed < 16; ++seed) {
        SCOPED_TRACE(seed);
        // In half of the runs queues and transfers are small, so that every limit is reached.
        Model model(seed % 2 == 0
                        ? this->make()
                        : this->make({.max_threads = 3, .ring_entries = 4, .max_transfer = 64}),
                    seed % 4 < 2 ? Model::Driver::event_loop : Model::Driver::foreign_loop, seed,
                    path, small);
        for (int step = 0; step < 3000; ++step) {
            model.step();
        }
        model.finish();
        completed += model.completed;
        cancelled += model.cancelled;
    }
    EXPECT_EQ(penstock::testing::open_descriptors(), descriptors);
    EXPECT_GT(completed, 1000U);
    EXPECT_GT(cancelled, 100U);
}

} // namespace
