#pragma once

#include <optional>

namespace penstock::process {

/// How a process ended (wait(2)): with an exit code or by a signal.
class ExitStatus {
public:
    [[nodiscard]] static ExitStatus exited(int code) noexcept { return {code, 0, false}; }
    [[nodiscard]] static ExitStatus killed(int signal, bool core_dumped) noexcept {
        return {0, signal, core_dumped};
    }

    /// Exit code 0.
    [[nodiscard]] bool success() const noexcept { return code_ == 0 && signal_ == 0; }

    /// 0 to 255. Empty if a signal ended the process.
    [[nodiscard]] std::optional<int> code() const noexcept {
        return signal_ == 0 ? std::optional(code_) : std::nullopt;
    }

    /// The signal that ended the process. Empty if it exited.
    [[nodiscard]] std::optional<int> signal() const noexcept {
        return signal_ != 0 ? std::optional(signal_) : std::nullopt;
    }

    [[nodiscard]] bool core_dumped() const noexcept { return core_dumped_; }

    [[nodiscard]] friend bool operator==(const ExitStatus&, const ExitStatus&) = default;

private:
    ExitStatus(int code, int signal, bool core_dumped) noexcept
        : code_(code), signal_(signal), core_dumped_(core_dumped) {}

    int code_;
    int signal_;
    bool core_dumped_;
};

} // namespace penstock::process
