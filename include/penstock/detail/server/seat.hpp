#pragma once

#include <exception>
#include <system_error>
#include <utility>

#include <penstock/detail/server/accept_loop.hpp>

namespace penstock::detail {

/// What a connection has of its server once it has left the task that accepted it: its place, where
/// its tasks run, and who is told how it ends.
class Seat {
public:
    Seat(AcceptLoop::Home& where, AcceptLoop::Place taken) noexcept
        : home_(where), place_(std::move(taken)) {}
    virtual ~Seat() = default;
    Seat(const Seat&) = delete;
    Seat& operator=(const Seat&) = delete;

    [[nodiscard]] AcceptLoop::Home& home() const noexcept { return home_; }
    [[nodiscard]] AcceptLoop& loop() const noexcept { return home_.loop; }

    /// The end by an error, or by an exception of the program, which is null otherwise.
    virtual void report(std::error_code error, const std::exception_ptr& thrown) noexcept = 0;

private:
    AcceptLoop::Home& home_;
    AcceptLoop::Place place_;
};

} // namespace penstock::detail
