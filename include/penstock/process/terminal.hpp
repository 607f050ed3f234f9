#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include <penstock/detail/descriptor_stream.hpp>
#include <penstock/detail/file_calls.hpp>
#include <penstock/result.hpp>

namespace penstock::process {

/// Rows and columns of characters.
struct TerminalSize {
    std::uint16_t rows = 24;
    std::uint16_t columns = 80;
};

namespace detail {

/// read(2) of a pty's controlling end: EIO, which Linux answers when nobody has the other end open any
/// more, is the end of the stream.
struct TerminalCalls : penstock::detail::FileCalls {
    static ssize_t read(int fd, MutableBytes into) noexcept;
    static ssize_t read(int fd, std::span<const iovec> parts) noexcept;
};

} // namespace detail

/// The controlling end of a pseudo-terminal (pty(7)) whose other end is a child's standard input, output
/// and error: what is read is what it shows, what is written is what is typed. The stream ends when the
/// last process that has it open has ended.
class Terminal
    : public penstock::detail::Readable<detail::TerminalCalls,
                                        penstock::detail::Writable<detail::TerminalCalls>> {
public:
    /// A closed terminal.
    Terminal() = default;

    /// Changes its size; the processes in the foreground get SIGWINCH. Errors: ioctl(2)'s.
    Result<> resize(TerminalSize size) noexcept;
    [[nodiscard]] Result<TerminalSize> size() const noexcept;

    /// A new pseudo-terminal; the path is that of its other end.
    [[nodiscard]] static Result<std::pair<Terminal, std::string>> open(TerminalSize size);

private:
    explicit Terminal(std::unique_ptr<penstock::detail::Pollable> pollable) noexcept
        : Readable(std::move(pollable)) {}
};

} // namespace penstock::process
