#include <penstock/fs/lock.hpp>

#include <cerrno>
#include <system_error>
#include <utility>

#include <fcntl.h>

#include <penstock/bridge/to_thread.hpp>
#include <penstock/detail/io/file_system_operation.hpp>

namespace penstock::fs {

namespace {

class LockOperation final : public penstock::detail::FileSystemOperation<LockOperation, void> {
public:
    LockOperation(int fd, const LockOptions& options) noexcept
        : fd_(fd), type_(static_cast<short>(options.shared ? F_RDLCK : F_WRLCK)),
          wait_(options.wait) {}

    void describe(io::FileOperation& request) const noexcept {
        request.to_call(&run);
        request.may_block_indefinitely = wait_;
    }

private:
    static std::int64_t run(io::FileOperation& request) noexcept {
        const LockOperation& self = derived_of(request);
        struct flock whole_file{};
        whole_file.l_type = self.type_;
        whole_file.l_whence = SEEK_SET;
        // Not repeated after EINTR: the signal may be the one with which the engine cancels.
        const int done = ::fcntl(self.fd_, self.wait_ ? F_OFD_SETLKW : F_OFD_SETLK, &whole_file);
        return done == 0 ? 0 : -errno;
    }

    int fd_;
    short type_;
    bool wait_;
};

} // namespace

Task<Result<Lock>> lock(std::string path, LockOptions options) {
    if (path.contains('\0')) {
        co_return failure(std::errc::invalid_argument);
    }
    Result<OwnedDescriptor> opened = co_await to_thread([&]() -> Result<OwnedDescriptor> {
        constexpr int flags = O_RDWR | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
        OwnedDescriptor file(::open(path.c_str(), flags, options.permissions));
        if (!file && options.shared && (errno == EACCES || errno == EROFS)) {
            file = OwnedDescriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
        }
        if (!file) {
            return last_failure();
        }
        return file;
    });
    if (!opened) {
        co_return failure(opened.error());
    }
    for (;;) {
        const Result<> locked = co_await LockOperation(opened->get(), options);
        if (locked) {
            co_return Lock(std::move(*opened));
        }
        if (locked.error() != std::errc::interrupted) { // by a signal of the program's own
            co_return failure(locked.error() == std::errc::permission_denied
                                  ? std::make_error_code(std::errc::resource_unavailable_try_again)
                                  : locked.error());
        }
    }
}

} // namespace penstock::fs
