// The floor of the files page: plain system calls and liburing, on the same files, in the same
// sizes. `file_floor --help` lists its options. Prints {"operations", "bytes", "seconds",
// "cpu_seconds"} as one JSON line; CPU time is that of the process, including the kernel's io_uring
// workers.

#include "clocks.hpp"
#include "load_options.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <functional>
#include <liburing.h>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <sys/stat.h>
#include <vector>

namespace {

using bench::checked;
using bench::now;

constexpr const char* kUsage = R"(file_floor: what plain system calls and liburing do with files

  --mode NAME      what is measured; required:
     pread, uring-read                 cached reads of --block bytes at random places of one file of
                                       --file-size bytes; the ring with --depth of them at a time
     direct-pread, direct-uring-read   the same past the page cache (O_DIRECT)
     read-files, uring-read-files      open, read, close each of --files files of --file-size bytes;
                                       the ring with --depth chains of open, read, close at a time
     write-blocks, uring-write-blocks  write --files files of --file-size bytes in --block pieces;
                                       the ring with --depth pieces at once; unlinking is not timed
     read-blocks, uring-read-blocks    read --files files of --file-size bytes in --block pieces
     append                            --count appends of --block bytes, fdatasync after each
     group-append                      the same, one write and one fdatasync for each --depth
  --folder PATH    where its files are made and then removed; required (O_DIRECT: on a disk)
  --files N        8        --file-size BYTES  2097152      --block BYTES  4096
  --depth N        32       --count N          200
  --seconds S      0.5      rounds are repeated for so long  --warmup S     0.1
)";

struct FloorOptions : bench::DurationOptions {
    std::string mode;
    std::string folder;
    std::size_t files = 8;
    std::size_t file_size = std::size_t{2} << 20;
    std::size_t block = 4096;
    unsigned depth = 32;
    std::size_t count = 200;

    bool take(std::string_view name, std::string_view text) {
        if (name == "--mode") {
            mode = text;
        } else if (name == "--folder") {
            folder = text;
        } else if (name == "--files") {
            files = bench::parse<std::size_t>(name, text);
        } else if (name == "--file-size") {
            file_size = bench::parse<std::size_t>(name, text);
        } else if (name == "--block") {
            block = bench::parse<std::size_t>(name, text);
        } else if (name == "--depth") {
            depth = bench::parse<unsigned>(name, text);
        } else if (name == "--count") {
            count = bench::parse<std::size_t>(name, text);
        } else {
            return DurationOptions::take(name, text);
        }
        return true;
    }

    void check() const {
        if (mode.empty() || folder.empty()) {
            throw std::invalid_argument("--mode and --folder are needed; see --help");
        }
        if (depth == 0 || depth > 4096 || block == 0 || files == 0 || file_size < block) {
            throw std::invalid_argument("--depth is 1 to 4096, --block and --files at least 1, and "
                                        "--file-size at least --block");
        }
    }

    std::string path(std::size_t number) const {
        return folder + "/floor-" + std::to_string(number);
    }
};

class Descriptor {
public:
    Descriptor(const std::string& path, int flags)
        : fd_(checked(open(path.c_str(), flags | O_CLOEXEC, 0600), path.c_str())) {}
    ~Descriptor() { close(fd_); }
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    int get() const { return fd_; }

private:
    int fd_;
};

class Ring {
public:
    explicit Ring(unsigned entries) {
        io_uring_params parameters{};
        parameters.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN;
        if (io_uring_queue_init_params(entries, &ring_, &parameters) != 0) { // before Linux 6.1
            parameters = {};
            const int error = io_uring_queue_init_params(entries, &ring_, &parameters);
            if (error != 0) {
                throw std::system_error(-error, std::generic_category(), "io_uring_setup");
            }
        }
        io_uring_register_ring_fd(&ring_);
    }
    ~Ring() { io_uring_queue_exit(&ring_); }
    Ring(const Ring&) = delete;
    Ring& operator=(const Ring&) = delete;

    io_uring_sqe* next() { return io_uring_get_sqe(&ring_); }
    io_uring* get() { return &ring_; }

    // Submits, waits for `count` completions, and passes each to `check(user_data, result)`.
    template <typename Check> void run(unsigned count, Check check) {
        checked(io_uring_submit_and_wait(&ring_, count), "io_uring_enter");
        for (unsigned i = 0; i < count; ++i) {
            io_uring_cqe* answer = nullptr;
            if (const int error = io_uring_wait_cqe(&ring_, &answer); error != 0) {
                throw std::system_error(-error, std::generic_category(), "io_uring_enter");
            }
            check(answer->user_data, answer->res);
            io_uring_cqe_seen(&ring_, answer);
        }
    }

private:
    io_uring ring_{};
};

// Page-aligned, as O_DIRECT requires.
class Buffer {
public:
    explicit Buffer(std::size_t size)
        : memory_(static_cast<char*>(std::aligned_alloc(4096, (size + 4095) / 4096 * 4096))) {
        if (memory_ == nullptr) {
            throw std::bad_alloc();
        }
        std::memset(memory_.get(), 'p', size);
    }
    char* get() const { return memory_.get(); }

private:
    struct Free {
        void operator()(char* memory) const { std::free(memory); }
    };
    std::unique_ptr<char, Free> memory_;
};

void expect(std::int64_t result, std::size_t size, const char* what) {
    if (result != static_cast<std::int64_t>(size)) {
        throw std::runtime_error(std::string(what) + " moved " + std::to_string(result) +
                                 " bytes and not " + std::to_string(size));
    }
}

// A mode: `prepare` runs untimed before each round; `round` returns its number of operations.
class Work {
public:
    explicit Work(const FloorOptions& options) : options_(options) {}
    virtual ~Work() = default;
    Work(const Work&) = delete;
    Work& operator=(const Work&) = delete;
    virtual void prepare() {}
    virtual std::size_t round() = 0;
    virtual std::size_t bytes_each() const { return options_.block; }

protected:
    void make_files(std::size_t count) const {
        const Buffer content(options_.file_size);
        for (std::size_t i = 0; i < count; ++i) {
            const Descriptor file(options_.path(i), O_WRONLY | O_CREAT | O_TRUNC);
            expect(write(file.get(), content.get(), options_.file_size), options_.file_size,
                   "write");
        }
        // Write back now, not during the measurement.
        const Descriptor any(options_.path(0), O_RDONLY);
        checked(syncfs(any.get()), "syncfs");
    }

    const FloorOptions& options_;
};

// At random offsets from the page cache, in file order with O_DIRECT, as the other contenders do.
class BlockReads final : public Work {
public:
    BlockReads(const FloorOptions& options, bool direct, bool ring)
        : Work(options), buffers_(options.block * options.depth), in_order_(direct) {
        make_files(1);
        file_.emplace_back(
            std::make_unique<Descriptor>(options.path(0), O_RDONLY | (direct ? O_DIRECT : 0)));
        if (ring) {
            ring_ = std::make_unique<Ring>(options.depth);
        } else if (!direct) {
            sequential_ = 1024;
        }
    }

    std::size_t round() override {
        const int fd = file_.front()->get();
        const unsigned count = ring_ != nullptr ? options_.depth : sequential_;
        for (unsigned i = 0; i < count; ++i) {
            const std::size_t block = in_order_ ? next_++ : random_();
            const std::size_t offset =
                block % (options_.file_size / options_.block) * options_.block;
            if (ring_ == nullptr) {
                expect(pread(fd, buffers_.get(), options_.block, static_cast<off_t>(offset)),
                       options_.block, "pread");
            } else {
                io_uring_prep_read(ring_->next(), fd, buffers_.get() + options_.block * i,
                                   static_cast<unsigned>(options_.block), offset);
            }
        }
        if (ring_ != nullptr) {
            ring_->run(count, [&](auto, int result) { expect(result, options_.block, "read"); });
        }
        return count;
    }

private:
    std::vector<std::unique_ptr<Descriptor>> file_;
    std::unique_ptr<Ring> ring_;
    Buffer buffers_;
    std::minstd_rand random_{1};
    bool in_order_;
    std::size_t next_ = 0;
    unsigned sequential_ = 32;
};

class WholeFiles final : public Work {
public:
    WholeFiles(const FloorOptions& options, bool ring)
        : Work(options), buffers_((options.file_size + 1) * options.depth) {
        make_files(options.files);
        for (std::size_t i = 0; i < options.files; ++i) {
            paths_.push_back(options.path(i));
        }
        if (ring) {
            ring_ = std::make_unique<Ring>(options.depth * 3);
            const int error = io_uring_register_files_sparse(ring_->get(), options.depth);
            checked(error, "io_uring_register of a sparse table");
        }
    }

    std::size_t bytes_each() const override { return options_.file_size; }

    std::size_t round() override {
        if (ring_ == nullptr) {
            for (const std::string& path : paths_) {
                const Descriptor file(path, O_RDONLY);
                expect(read(file.get(), buffers_.get(), options_.file_size + 1), options_.file_size,
                       "read");
            }
            return paths_.size();
        }
        for (std::size_t first = 0; first < paths_.size(); first += options_.depth) {
            chains(first, std::min<std::size_t>(options_.depth, paths_.size() - first));
        }
        return paths_.size();
    }

private:
    void chains(std::size_t first, std::size_t count) {
        for (unsigned slot = 0; slot < count; ++slot) {
            io_uring_sqe* open = ring_->next();
            io_uring_prep_openat_direct(open, AT_FDCWD, paths_[first + slot].c_str(), O_RDONLY, 0,
                                        slot);
            open->flags |= IOSQE_IO_LINK | IOSQE_CQE_SKIP_SUCCESS;
            open->user_data = 0;
            io_uring_sqe* read = ring_->next();
            io_uring_prep_read(read, static_cast<int>(slot),
                               buffers_.get() + (options_.file_size + 1) * slot,
                               static_cast<unsigned>(options_.file_size + 1), 0);
            read->flags |= IOSQE_FIXED_FILE | IOSQE_IO_HARDLINK;
            read->user_data = 1;
            io_uring_sqe* close = ring_->next();
            io_uring_prep_close_direct(close, slot);
            close->user_data = 2;
        }
        ring_->run(static_cast<unsigned>(count) * 2, [&](std::uint64_t step, int result) {
            if (step == 1) {
                expect(result, options_.file_size, "read");
            } else {
                checked(result, step == 0 ? "openat" : "close");
            }
        });
    }

    std::vector<std::string> paths_;
    std::unique_ptr<Ring> ring_;
    Buffer buffers_;
};

class Blocks final : public Work {
public:
    Blocks(const FloorOptions& options, bool writes, bool ring)
        : Work(options), writes_(writes), buffers_(options.block * (ring ? options.depth : 1)) {
        make_files(options.files);
        if (ring) {
            ring_ = std::make_unique<Ring>(options.depth);
        }
    }

    void prepare() override {
        for (std::size_t i = 0; writes_ && i < options_.files; ++i) {
            checked(unlink(options_.path(i).c_str()), "unlink");
        }
    }

    std::size_t round() override {
        std::size_t operations = 0;
        for (std::size_t i = 0; i < options_.files; ++i) {
            const Descriptor file(options_.path(i), writes_ ? O_WRONLY | O_CREAT : O_RDONLY);
            for (std::size_t offset = 0; offset < options_.file_size;) {
                offset += ring_ != nullptr ? batch(file.get(), offset) : single(file.get(), offset);
                ++operations;
            }
        }
        return ring_ != nullptr ? options_.files * (options_.file_size / options_.block)
                                : operations;
    }

private:
    std::size_t piece(std::size_t offset) const {
        return std::min(options_.block, options_.file_size - offset);
    }

    std::size_t single(int fd, std::size_t offset) {
        const std::size_t size = piece(offset);
        expect(writes_ ? pwrite(fd, buffers_.get(), size, static_cast<off_t>(offset))
                       : pread(fd, buffers_.get(), size, static_cast<off_t>(offset)),
               size, writes_ ? "pwrite" : "pread");
        return size;
    }

    std::size_t batch(int fd, std::size_t offset) {
        unsigned count = 0;
        std::size_t moved = 0;
        for (; count < options_.depth && offset + moved < options_.file_size; ++count) {
            const std::size_t size = piece(offset + moved);
            char* memory = buffers_.get() + options_.block * count;
            io_uring_sqe* request = ring_->next();
            io_uring_prep_rw(writes_ ? IORING_OP_WRITE : IORING_OP_READ, request, fd, memory,
                             static_cast<unsigned>(size), offset + moved);
            request->user_data = size;
            moved += size;
        }
        ring_->run(count, [](std::uint64_t size, int result) { expect(result, size, "transfer"); });
        return moved;
    }

    bool writes_;
    std::unique_ptr<Ring> ring_;
    Buffer buffers_;
};

class Appends final : public Work {
public:
    Appends(const FloorOptions& options, std::size_t group)
        : Work(options), group_(group), buffer_(options.block * group),
          file_(options.path(0), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND) {}

    std::size_t round() override {
        for (std::size_t done = 0; done < options_.count;) {
            const std::size_t records = std::min(group_, options_.count - done);
            expect(write(file_.get(), buffer_.get(), options_.block * records),
                   options_.block * records, "write");
            checked(fdatasync(file_.get()), "fdatasync");
            done += records;
        }
        return options_.count;
    }

private:
    std::size_t group_;
    Buffer buffer_;
    Descriptor file_;
};

std::unique_ptr<Work> make_work(const FloorOptions& options) {
    using Make = std::function<std::unique_ptr<Work>()>;
    const std::map<std::string_view, Make> modes{
        {"pread", [&] { return std::make_unique<BlockReads>(options, false, false); }},
        {"uring-read", [&] { return std::make_unique<BlockReads>(options, false, true); }},
        {"direct-pread", [&] { return std::make_unique<BlockReads>(options, true, false); }},
        {"direct-uring-read", [&] { return std::make_unique<BlockReads>(options, true, true); }},
        {"read-files", [&] { return std::make_unique<WholeFiles>(options, false); }},
        {"uring-read-files", [&] { return std::make_unique<WholeFiles>(options, true); }},
        {"write-blocks", [&] { return std::make_unique<Blocks>(options, true, false); }},
        {"uring-write-blocks", [&] { return std::make_unique<Blocks>(options, true, true); }},
        {"read-blocks", [&] { return std::make_unique<Blocks>(options, false, false); }},
        {"uring-read-blocks", [&] { return std::make_unique<Blocks>(options, false, true); }},
        {"append", [&] { return std::make_unique<Appends>(options, 1); }},
        {"group-append", [&] { return std::make_unique<Appends>(options, options.depth); }},
    };
    const auto found = modes.find(options.mode);
    if (found == modes.end()) {
        throw std::invalid_argument("unknown --mode '" + options.mode + "'; see --help");
    }
    return found->second();
}

void measure(const FloorOptions& options) {
    const std::unique_ptr<Work> work = make_work(options);
    const bench::Nanoseconds warm = now(CLOCK_MONOTONIC) + bench::to_ns(options.warmup);
    do {
        work->prepare();
        work->round();
    } while (now(CLOCK_MONOTONIC) < warm);
    std::size_t operations = 0;
    bench::Nanoseconds elapsed = 0;
    bench::Nanoseconds cpu = 0;
    while (elapsed < bench::to_ns(options.seconds)) {
        work->prepare();
        bench::TimedRegion region(0);
        region.begin();
        operations += work->round();
        region.end();
        elapsed += region.elapsed;
        cpu += region.client_cpu;
    }
    std::printf("{\"operations\": %zu, \"bytes\": %zu, \"seconds\": %.9f, \"cpu_seconds\": %.9f}\n",
                operations, operations * work->bytes_each(), static_cast<double>(elapsed) / 1e9,
                static_cast<double>(cpu) / 1e9);
}

} // namespace

int main(int argc, char** argv) {
    if (argc > 1 && std::string_view(argv[1]) == "--help") {
        std::fputs(kUsage, stdout);
        return 0;
    }
    try {
        const auto options = bench::parse_options<FloorOptions>(argc, argv);
        const struct Removal {
            ~Removal() {
                const std::size_t count = std::max<std::size_t>(options.files, 1);
                for (std::size_t i = 0; i < count; ++i) {
                    unlink(options.path(i).c_str());
                }
            }
            const FloorOptions& options;
        } removal{options};
        measure(options);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "file_floor: %s\n", error.what());
        return 1;
    }
    return 0;
}
