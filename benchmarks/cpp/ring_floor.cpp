// The floor of the uring page: the same work with liburing in C++.
//
// Takes the options of benchmarks/ring_work.py, reads the files that it has created, and prints the
// same JSON line. Work that it does not offer ends it with exit code 69.

#include "clocks.hpp"
#include "load_options.hpp"

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <functional>
#include <liburing.h>
#include <string>
#include <sys/mman.h>
#include <vector>

namespace {

using bench::checked;
using bench::now;

constexpr unsigned kBatch = 256;
constexpr unsigned kBatches = 64;
constexpr unsigned kBlock = 4096;
constexpr unsigned kDepth = 32;
constexpr unsigned kCachedBlocks = 1024;
constexpr unsigned kDirectBlocks = 8192;
constexpr unsigned kSmallFiles = 1000;
constexpr int kUnavailable = 69;

struct RingOptions : bench::DurationOptions {
    RingOptions() { seconds = 0.3; }

    std::string workload;
    std::string folder;

    bool take(std::string_view name, std::string_view text) {
        if (name == "--workload") {
            workload = text;
        } else if (name == "--folder") {
            folder = text;
        } else {
            return DurationOptions::take(name, text);
        }
        return true;
    }

    void check() const {
        if (workload.empty() || folder.empty()) {
            throw std::invalid_argument("--workload and --folder are needed");
        }
    }
};

int checked_ring(int result, const char* call) {
    if (result < 0) {
        throw std::system_error(-result, std::generic_category(), call);
    }
    return result;
}

class Ring {
public:
    Ring() {
        checked_ring(io_uring_queue_init(kBatch, &ring_,
                                         IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN),
                     "io_uring_queue_init");
    }
    Ring(const Ring&) = delete;
    Ring& operator=(const Ring&) = delete;
    ~Ring() { io_uring_queue_exit(&ring_); }

    io_uring* get() { return &ring_; }

    io_uring_sqe* next() {
        io_uring_sqe* entry = io_uring_get_sqe(&ring_);
        if (entry == nullptr) {
            throw std::runtime_error("the submission queue is full");
        }
        return entry;
    }

    // Submits, waits for `count` completions and calls `take` with each.
    template <typename Take> unsigned wait(unsigned count, const Take& take) {
        checked_ring(io_uring_submit_and_wait(&ring_, count), "io_uring_submit_and_wait");
        unsigned head = 0;
        unsigned taken = 0;
        io_uring_cqe* entry = nullptr;
        io_uring_for_each_cqe(&ring_, head, entry) {
            take(*entry);
            ++taken;
        }
        io_uring_cq_advance(&ring_, taken);
        return taken;
    }

private:
    io_uring ring_{};
};

std::vector<std::vector<std::uint64_t>> scattered(unsigned blocks) {
    std::vector<std::vector<std::uint64_t>> batches(kBatches);
    std::uint64_t number = 0;
    for (auto& batch : batches) {
        for (unsigned i = 0; i < kBatch; ++i) {
            number = (number * 1103515245 + 12345) & 0x7FFFFFFF;
            batch.push_back((number >> 8) % blocks * kBlock);
        }
    }
    return batches;
}

int open_blocks(const RingOptions& options, unsigned blocks, int flags) {
    const std::string path = options.folder + "/blocks-" + std::to_string(blocks);
    return checked(open(path.c_str(), O_RDONLY | O_CLOEXEC | flags), "open");
}

std::byte* map_blocks(unsigned count) {
    void* memory = mmap(nullptr, std::size_t{count} * kBlock, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    checked(memory == MAP_FAILED ? -1 : 0, "mmap");
    return static_cast<std::byte*>(memory);
}

void check_block(const std::byte* memory, std::uint64_t offset) {
    std::uint64_t number = 0;
    std::memcpy(&number, memory, sizeof number);
    if (number != offset / kBlock) {
        throw std::runtime_error("the blocks read are not those that were written");
    }
}

void check_result(const io_uring_cqe& entry) {
    if (entry.res != static_cast<int>(kBlock)) {
        throw std::runtime_error("a read returned " + std::to_string(entry.res));
    }
}

using Work = std::function<unsigned()>;

Work nops(Ring& ring) {
    return [&ring] {
        for (unsigned i = 0; i < kBatch; ++i) {
            io_uring_prep_nop(ring.next());
        }
        return ring.wait(kBatch, [](const io_uring_cqe&) {});
    };
}

std::vector<iovec> register_blocks(Ring& ring, std::byte* memory, unsigned count) {
    std::vector<iovec> parts(count);
    for (unsigned i = 0; i < count; ++i) {
        parts[i] = {memory + std::size_t{i} * kBlock, kBlock};
    }
    checked_ring(io_uring_register_buffers(ring.get(), parts.data(), count), "register_buffers");
    return parts;
}

Work cached_reads(Ring& ring, const RingOptions& options) {
    const int fd = open_blocks(options, kCachedBlocks, 0);
    const auto parts = register_blocks(ring, map_blocks(kBatch), kBatch);
    return [&ring, fd, parts, batches = scattered(kCachedBlocks), turn = 0U]() mutable {
        const auto& batch = batches[turn++ % kBatches];
        for (unsigned i = 0; i < kBatch; ++i) {
            io_uring_prep_read_fixed(ring.next(), fd, parts[i].iov_base, kBlock, batch[i],
                                     static_cast<int>(i));
        }
        const unsigned taken = ring.wait(kBatch, check_result);
        check_block(static_cast<const std::byte*>(parts[0].iov_base), batch[0]);
        return taken;
    };
}

Work direct_reads(Ring& ring, const RingOptions& options) {
    const int fd = open_blocks(options, kDirectBlocks, O_DIRECT);
    const auto parts = register_blocks(ring, map_blocks(kDepth), kDepth);
    return [&ring, fd, parts, batches = scattered(kDirectBlocks), turn = 0U]() mutable {
        const auto& batch = batches[turn++ % kBatches];
        unsigned next = 0;
        const auto prepare = [&](std::uint64_t slot) {
            io_uring_sqe* entry = ring.next();
            io_uring_prep_read_fixed(entry, fd, parts[slot].iov_base, kBlock, batch[next++],
                                     static_cast<int>(slot));
            io_uring_sqe_set_data64(entry, slot);
        };
        for (unsigned slot = 0; slot < kDepth; ++slot) {
            prepare(slot);
        }
        unsigned done = 0;
        while (done < kBatch) {
            done += ring.wait(1, [&](const io_uring_cqe& entry) {
                check_result(entry);
                if (next < kBatch) {
                    prepare(entry.user_data);
                }
            });
        }
        return done;
    };
}

Work small_files(const RingOptions& options) {
    std::vector<std::string> paths;
    for (unsigned i = 0; i < kSmallFiles; ++i) {
        paths.push_back(options.folder + "/small/" + std::to_string(i));
    }
    return [paths] {
        std::array<std::byte, 65536> memory{};
        for (unsigned i = 0; i < kSmallFiles; ++i) {
            const int fd = checked(open(paths[i].c_str(), O_RDONLY | O_CLOEXEC), "open");
            if (read(fd, memory.data(), memory.size()) != kBlock ||
                read(fd, memory.data() + kBlock, memory.size() - kBlock) != 0) {
                throw std::runtime_error("a file is not as long as it was written");
            }
            close(fd);
            check_block(memory.data(), std::uint64_t{i} * kBlock);
        }
        return kSmallFiles;
    };
}

Work choose(Ring& ring, const RingOptions& options) {
    if (options.workload.starts_with("NOPs")) {
        return nops(ring);
    }
    if (options.workload.starts_with("cached reads")) {
        return cached_reads(ring, options);
    }
    if (options.workload == "direct reads") {
        return direct_reads(ring, options);
    }
    if (options.workload == "small files") {
        return small_files(options);
    }
    throw std::invalid_argument("unknown workload '" + options.workload + "'");
}

} // namespace

int main(int argc, char** argv) {
    try {
        const auto options = bench::parse_options<RingOptions>(argc, argv);
        Ring ring;
        const Work work = choose(ring, options);
        const auto warm = now(CLOCK_MONOTONIC) + bench::to_ns(options.warmup);
        while (now(CLOCK_MONOTONIC) < warm) {
            work();
        }
        bench::TimedRegion region(0);
        region.begin();
        const auto end = region.begun + bench::to_ns(options.seconds);
        std::uint64_t operations = 0;
        do {
            operations += work();
        } while (now(CLOCK_MONOTONIC) < end);
        region.end();
        std::printf("{\"operations\": %llu, \"seconds\": %.9f, \"cpu_seconds\": %.9f}\n",
                    static_cast<unsigned long long>(operations),
                    static_cast<double>(region.elapsed) / 1e9,
                    static_cast<double>(region.client_cpu) / 1e9);
        return 0;
    } catch (const std::system_error& error) {
        std::fprintf(stderr, "ring_floor: %s\n", error.what());
        return error.code() == std::errc::operation_not_permitted ||
                       error.code() == std::errc::function_not_supported
                   ? kUnavailable
                   : 1;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "ring_floor: %s\n", error.what());
        return 1;
    }
}
