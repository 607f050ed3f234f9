#include <penstock/detail/task/frame_allocator.hpp>

#include <array>
#include <new>

#if defined(__SANITIZE_ADDRESS__)
#define PENSTOCK_KEEP_NO_FRAMES
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define PENSTOCK_KEEP_NO_FRAMES
#endif
#endif

namespace penstock::detail {

namespace {

constexpr std::size_t granule = 32;
/// What the C library's allocator keeps before a block: with it, a block is a multiple of
/// `granule`, so that nothing is lost to its own rounding.
constexpr std::size_t block_header = sizeof(std::size_t);
constexpr std::size_t largest = 4096;
constexpr std::size_t kept_bytes = std::size_t{256} * 1024;

struct Block {
    Block* next;
};

struct Bin {
    Block* first = nullptr;
    std::size_t count = 0;
};

/// The cache of one thread. It has no destructor, so it works until the very end of the thread.
/// `Keeper` frees the memory. Blocks freed after that are not cached.
struct Bins {
    std::array<Bin, largest / granule + 1> of;
    bool keeps = false;
    bool ended = false;
};

constinit thread_local Bins bins;

struct Keeper {
    Keeper() { bins.keeps = true; }
    Keeper(const Keeper&) = delete;
    Keeper& operator=(const Keeper&) = delete;
    ~Keeper() {
        bins.keeps = false;
        bins.ended = true;
        for (Bin& bin : bins.of) {
            while (Block* block = bin.first) {
                bin.first = block->next;
                ::operator delete(block);
            }
            bin.count = 0;
        }
    }
};

void start_keeping() {
    if (!bins.ended) {
        static thread_local const Keeper keeper;
    }
}

constexpr std::size_t bin_of(std::size_t size) noexcept {
    return (size + block_header - 1) / granule;
}

constexpr std::size_t rounded(std::size_t size) noexcept {
    return (bin_of(size) + 1) * granule - block_header;
}

#ifdef PENSTOCK_KEEP_NO_FRAMES
constexpr bool recycling = false;
#else
constexpr bool recycling = true;
#endif

} // namespace

void* allocate_frame(std::size_t size) {
    if (!recycling || size > largest) {
        return ::operator new(size);
    }
    Bin& bin = bins.of[bin_of(size)];
    if (Block* block = bin.first) {
        bin.first = block->next;
        --bin.count;
        return block;
    }
    return ::operator new(rounded(size));
}

void free_frame(void* memory, std::size_t size) noexcept {
    if (!recycling || size > largest) {
        ::operator delete(memory);
        return;
    }
    if (!bins.keeps) {
        start_keeping();
    }
    Bin& bin = bins.of[bin_of(size)];
    if (!bins.keeps || bin.count * rounded(size) >= kept_bytes) {
        ::operator delete(memory);
        return;
    }
    bin.first = ::new (memory) Block{bin.first};
    ++bin.count;
}

} // namespace penstock::detail
