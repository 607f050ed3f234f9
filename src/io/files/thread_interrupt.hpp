#pragma once

#include <pthread.h>

namespace penstock::io {

// Interrupts the system call that another thread is in: the call returns EINTR. Uses a signal whose
// handler does nothing. Nothing else ends the opening of a FIFO. The signal is the last real-time
// signal that has its default action when the first one is needed. If the program uses all of them,
// nothing is interrupted.
//
// The extension's IoctlThread uses pthread_cancel(3) instead, and each needs its own way. A signal
// that arrives just before the system call is lost, so the sender must repeat it: the file engine
// does so while its loop runs. An IoctlThread belongs to no loop, and `cancel` on it may not wait
// or be repeated; a cancellation stays pending, and ends the thread with the call. A worker thread
// must survive the call, and its frames are noexcept, which the unwinding of pthread_cancel cannot
// pass.
//
// Rejected: opening the FIFO's other end for a moment. It needs the permission, and releases all
// other waiters too.

/// Allows interrupts of the calling thread.
void allow_interrupts() noexcept;

/// Interrupts a thread that allows it. Does not affect a system call that the thread is about to
/// make; the caller repeats the interrupt until it takes effect.
void interrupt(pthread_t thread) noexcept;

} // namespace penstock::io
