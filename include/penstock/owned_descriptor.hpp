#pragma once

#include <utility>

#include <unistd.h>

namespace penstock {

/// A file descriptor that the destructor closes. Move-only. -1 is empty.
class OwnedDescriptor {
public:
    OwnedDescriptor() = default;
    explicit OwnedDescriptor(int fd) noexcept : fd_(fd) {}
    OwnedDescriptor(OwnedDescriptor&& other) noexcept : fd_(other.release()) {}
    OwnedDescriptor& operator=(OwnedDescriptor&& other) noexcept {
        if (this != &other) {
            reset(other.release());
        }
        return *this;
    }
    OwnedDescriptor(const OwnedDescriptor&) = delete;
    OwnedDescriptor& operator=(const OwnedDescriptor&) = delete;
    ~OwnedDescriptor() { reset(); }

    [[nodiscard]] int get() const noexcept { return fd_; }
    [[nodiscard]] explicit operator bool() const noexcept { return fd_ >= 0; }

    /// Releases ownership.
    [[nodiscard]] int release() noexcept { return std::exchange(fd_, -1); }

    /// Closes the descriptor and takes ownership of `fd`.
    void reset(int fd = -1) noexcept {
        if (const int old = std::exchange(fd_, fd); old >= 0) {
            ::close(old);
        }
    }

private:
    int fd_ = -1;
};

} // namespace penstock
