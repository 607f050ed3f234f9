#pragma once

#include <pthread.h>

namespace penstock::io {

// Ends a system call that another thread is in, with EINTR, by a signal whose handler does nothing: it is
// all that ends the opening of a FIFO. The signal is the last real-time one that has its default action
// when it is first needed; where all of them are taken nothing is interrupted.
//
// Not pthread_cancel(3): its unwinding cannot pass through what is noexcept. Not opening the other end for
// a moment: that needs permission to, and lets go everybody else who waits for it.

/// Lets the calling thread be interrupted.
void allow_interrupts() noexcept;

/// Interrupts a thread that allows it. A system call that it is only about to make is not ended: whoever
/// needs that asks again.
void interrupt(pthread_t thread) noexcept;

} // namespace penstock::io
