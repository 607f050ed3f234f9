#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include <penstock/detail/io/descriptor_calls.hpp>
#include <penstock/detail/io/descriptor_stream.hpp>
#include <penstock/result.hpp>

namespace penstock::process {

/// The size of a terminal, in characters.
struct TerminalSize {
    std::uint16_t rows = 24;
    std::uint16_t columns = 80;
};

namespace detail {

/// read(2) of a pseudo-terminal. Linux returns EIO when nobody has the other side open. That is the
/// end of the stream here.
struct TerminalCalls : penstock::detail::DescriptorCalls {
    static ssize_t read(int fd, MutableBytes into) noexcept;
    static ssize_t read(int fd, std::span<const iovec> parts) noexcept;
};

} // namespace detail

/// The controlling side of a pseudo-terminal (pty(7)). The other side is a child's standard input,
/// output and error. Reading returns what the child prints. Writing is what a user would type. The
/// stream ends when the last process has closed the other side.
class Terminal
    : public penstock::detail::Readable<detail::TerminalCalls,
                                        penstock::detail::Writable<detail::TerminalCalls>> {
public:
    /// A closed terminal.
    Terminal() = default;

    /// Changes the size. Foreground processes get SIGWINCH. Errors: those of ioctl(2).
    Result<> resize(TerminalSize size) noexcept;
    [[nodiscard]] Result<TerminalSize> size() const noexcept;

    /// Creates a pseudo-terminal. Returns it with the path of its other side.
    [[nodiscard]] static Result<std::pair<Terminal, std::string>> open(TerminalSize size);

private:
    explicit Terminal(std::unique_ptr<penstock::detail::Pollable> pollable) noexcept
        : Readable(std::move(pollable)) {}
};

} // namespace penstock::process
