#include "coro/support/emulated_driver.hpp"

#include <cerrno>
#include <cstddef>

#include <sys/types.h>
#include <sys/uio.h>

namespace penstock::testing {

template <typename T> T EmulatedDriver::next(std::deque<T>& answers, T otherwise) {
    if (answers.empty()) {
        return otherwise;
    }
    const T answer = answers.front();
    if (answers.size() > 1) {
        answers.pop_front();
    }
    return answer;
}

void EmulatedDriver::note_line(const char* action, int bits) {
    if ((bits & TIOCM_RTS) != 0) {
        log.push_back(std::string("RTS ") + action);
    }
    if ((bits & TIOCM_DTR) != 0) {
        log.push_back(std::string("DTR ") + action);
    }
}

bool EmulatedDriver::answers(unsigned long request, void* argument, int& result) {
    const auto fail = [&](int error) {
        errno = error;
        result = -1;
        return true;
    };
    if (interruptions > 0) {
        --interruptions;
        return fail(EINTR);
    }
    if (const auto failure = failing.find(request); failure != failing.end()) {
        log.emplace_back("failed");
        return fail(failure->second);
    }
    result = 0;
    switch (request) {
    case TIOCMGET:
        if (!lines) {
            return fail(ENOTTY);
        }
        *static_cast<int*>(argument) = *lines;
        return true;
    case TIOCMBIS:
    case TIOCMBIC: {
        if (!lines) {
            return fail(ENOTTY);
        }
        const int bits = *static_cast<int*>(argument);
        *lines = request == TIOCMBIS ? *lines | bits : *lines & ~bits;
        note_line(request == TIOCMBIS ? "up" : "down", bits);
        return true;
    }
    case TIOCOUTQ: {
        const int count = next(unsent, 0);
        *static_cast<int*>(argument) = count;
        log.push_back("unsent " + std::to_string(count));
        return true;
    }
    case TIOCSERGETLSR: {
        if (sent.empty()) {
            return fail(ENOTTY);
        }
        const bool is_empty = next(sent, true);
        *static_cast<unsigned*>(argument) = is_empty ? TIOCSER_TEMT : 0;
        log.emplace_back(is_empty ? "sent" : "sending");
        return true;
    }
    case TIOCGSERIAL:
        if (!fifo) {
            return fail(ENOTTY);
        }
        *static_cast<serial_struct*>(argument) = serial_struct{};
        static_cast<serial_struct*>(argument)->xmit_fifo_size = *fifo;
        return true;
    case TIOCGRS485:
    case TIOCSRS485:
        if (!rs485) {
            return fail(ENOTTY);
        }
        if (request == TIOCGRS485) {
            *static_cast<serial_rs485*>(argument) = *rs485;
        } else {
            log.emplace_back("RS-485 mode");
            if (takes_rs485_settings) {
                *rs485 = *static_cast<serial_rs485*>(argument);
            }
        }
        return true;
    case TIOCGICOUNT:
        if (!counts) {
            return fail(ENOTTY);
        }
        *static_cast<serial_icounter_struct*>(argument) = *counts;
        return true;
    case TIOCSBRK:
        log.emplace_back("break");
        return true;
    case TIOCCBRK:
        log.emplace_back("no break");
        return true;
    case TCFLSH:
        log.emplace_back("flush");
        return false;
    default:
        return false;
    }
}

} // namespace penstock::testing

extern "C" {

// The names are the linker's.
// NOLINTBEGIN(bugprone-reserved-identifier)
int __real_ioctl(int fd, unsigned long request, void* argument);
ssize_t __real_pwritev2(int fd, const iovec* parts, int count, off_t offset, int flags);
ssize_t __real_writev(int fd, const iovec* parts, int count);

// All arguments of ioctl(2) fit into a pointer's register, also integers.
int __wrap_ioctl(int fd, unsigned long request, void* argument) {
    int result = 0;
    auto* driver = penstock::testing::EmulatedDriver::present;
    if (driver != nullptr && driver->answers(request, argument, result)) {
        return result;
    }
    return __real_ioctl(fd, request, argument);
}

ssize_t __wrap_pwritev2(int fd, const iovec* parts, int count, off_t offset, int flags) {
    auto* driver = penstock::testing::EmulatedDriver::present;
    if (driver == nullptr) {
        return __real_pwritev2(fd, parts, count, offset, flags);
    }
    if (driver->write_error != 0) {
        driver->log.emplace_back("no write");
        errno = driver->write_error;
        return -1;
    }
    const ssize_t written = __real_pwritev2(fd, parts, count, offset, flags);
    const int saved = errno;
    if (written >= 0) {
        driver->log.push_back("write " + std::to_string(written));
        if (driver->on_write) {
            driver->on_write();
        }
    }
    errno = saved;
    return written;
}

ssize_t __wrap_writev(int fd, const iovec* parts, int count) {
    auto* driver = penstock::testing::EmulatedDriver::present;
    const ssize_t written = __real_writev(fd, parts, count);
    const int saved = errno;
    if (driver != nullptr && written >= 0) {
        driver->log.push_back("write " + std::to_string(written));
    }
    errno = saved;
    return written;
}
// NOLINTEND(bugprone-reserved-identifier)
}
