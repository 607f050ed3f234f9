#include <penstock/io/fork_mark.hpp>

#include <cerrno>
#include <cstddef>
#include <system_error>

#include <sys/mman.h>
#include <unistd.h>

namespace penstock::io {

namespace {

std::size_t page_size() noexcept {
    return static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

} // namespace

ForkMark::ForkMark() {
    void* page =
        mmap(nullptr, page_size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) {
        throw std::system_error(errno, std::system_category(), "mmap of a page");
    }
    if (madvise(page, page_size(), MADV_WIPEONFORK) != 0) {
        process_ = getpid();
    }
    page_ = static_cast<volatile unsigned char*>(page);
    *page_ = 1;
}

ForkMark::~ForkMark() {
    munmap(const_cast<unsigned char*>(page_), page_size());
}

void ForkMark::take_over() noexcept {
    *page_ = 1;
    if (process_ != 0) {
        process_ = getpid();
    }
}

bool ForkMark::process_has_changed() const noexcept {
    return getpid() != process_;
}

} // namespace penstock::io
