#pragma once

#include <array>
#include <cerrno>
#include <cstddef>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

namespace penstock::testing {

/// An owned file descriptor.
class Descriptor {
public:
    Descriptor() = default;
    explicit Descriptor(int fd) : fd_(fd) {
        if (fd < 0) {
            throw std::system_error(errno, std::system_category(), "no descriptor");
        }
    }
    Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    Descriptor& operator=(Descriptor&& other) noexcept {
        if (this != &other) {
            close();
            fd_ = std::exchange(other.fd_, -1);
        }
        return *this;
    }
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    ~Descriptor() { close(); }

    void close() noexcept {
        if (fd_ >= 0) {
            ::close(std::exchange(fd_, -1));
        }
    }

    [[nodiscard]] int get() const noexcept { return fd_; }

private:
    int fd_ = -1;
};

/// Two connected, non-blocking stream sockets.
struct SocketPair {
    SocketPair() {
        std::array<int, 2> ends{};
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()) != 0) {
            throw std::system_error(errno, std::system_category(), "socketpair");
        }
        near = Descriptor(ends[0]);
        far = Descriptor(ends[1]);
    }

    Descriptor near;
    Descriptor far;
};

/// A blocking pipe.
struct Pipe {
    Pipe() {
        std::array<int, 2> ends{};
        if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
            throw std::system_error(errno, std::system_category(), "pipe2");
        }
        out = Descriptor(ends[0]);
        in = Descriptor(ends[1]);
    }

    Descriptor out;
    Descriptor in;
};

/// Opens a file. Throws on an error.
inline Descriptor opened(const std::string& path, int flags = O_RDONLY) {
    return Descriptor(::open(path.c_str(), flags | O_CLOEXEC, 0644));
}

inline void write_byte(const Descriptor& to) {
    if (::write(to.get(), "x", 1) != 1) {
        throw std::system_error(errno, std::system_category(), "write");
    }
}

/// Reads all available bytes and returns their number.
inline std::size_t drain(int fd) {
    std::array<char, 4096> buffer{};
    std::size_t total = 0;
    ssize_t count = 0;
    while ((count = ::read(fd, buffer.data(), buffer.size())) > 0) {
        total += static_cast<std::size_t>(count);
    }
    return total;
}

/// Writes until the descriptor accepts no more.
inline void fill(const Descriptor& to) {
    const std::string block(4096, 'x');
    while (::write(to.get(), block.data(), block.size()) > 0) {
    }
}

/// The number that the next opened descriptor gets.
inline int lowest_free_descriptor() {
    return Descriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC)).get();
}

inline std::size_t open_descriptors() {
    DIR* directory = ::opendir("/proc/self/fd");
    if (directory == nullptr) {
        throw std::system_error(errno, std::system_category(), "/proc/self/fd");
    }
    std::size_t count = 0;
    while (::readdir(directory) != nullptr) {
        ++count;
    }
    ::closedir(directory);
    return count;
}

/// The lowest descriptor of which /proc shows `target`, for example "anon_inode:[eventfd]". -1 if
/// there is none.
inline int descriptor_of(const std::string& target) {
    for (int fd = 0; fd < 1024; ++fd) {
        std::array<char, 256> shown{};
        const std::string link = "/proc/self/fd/" + std::to_string(fd);
        const ssize_t length = ::readlink(link.c_str(), shown.data(), shown.size());
        if (length > 0 &&
            target == std::string_view(shown.data(), static_cast<std::size_t>(length))) {
            return fd;
        }
    }
    return -1;
}

/// Returns after the timer descriptor of the process's only poller has expired. It is never read,
/// so it stays readable.
inline void await_expiry_of_the_alarm() {
    pollfd alarm{.fd = descriptor_of("anon_inode:[timerfd]"), .events = POLLIN, .revents = 0};
    while (::poll(&alarm, 1, -1) < 0 && errno == EINTR) {
    }
}

/// While it exists, the process cannot open descriptors.
class NoDescriptors {
public:
    NoDescriptors() {
        ::getrlimit(RLIMIT_NOFILE, &before_);
        rlimit none = before_;
        none.rlim_cur = 0;
        ::setrlimit(RLIMIT_NOFILE, &none);
    }
    ~NoDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }
    NoDescriptors(const NoDescriptors&) = delete;
    NoDescriptors& operator=(const NoDescriptors&) = delete;

private:
    rlimit before_{};
};

/// Runs `body` while the process can open only `count` more descriptors, and returns the code of
/// the `std::system_error` that it throws. Needs descriptor numbers without gaps, which a test has
/// at its start.
template <typename Body> std::error_code error_with_descriptors_left(int count, Body body) {
    struct Limit {
        explicit Limit(int left) {
            getrlimit(RLIMIT_NOFILE, &before);
            rlimit tight = before;
            tight.rlim_cur = static_cast<rlim_t>(lowest_free_descriptor() + left);
            setrlimit(RLIMIT_NOFILE, &tight);
        }
        ~Limit() { setrlimit(RLIMIT_NOFILE, &before); }
        Limit(const Limit&) = delete;
        Limit& operator=(const Limit&) = delete;

        rlimit before{};
    };
    try {
        // UBSan needs descriptors when it first sees a class, so the category is used before the
        // limit is set. The limit ends before the handler below.
        [[maybe_unused]] const std::system_error shown(ENOENT, std::system_category(), "shown");
        const Limit limit(count);
        body();
    } catch (const std::system_error& error) {
        return error.code();
    }
    return {};
}

} // namespace penstock::testing
