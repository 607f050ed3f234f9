#pragma once

namespace penstock::python {

/// Hangs the calling thread for good if the interpreter has begun to exit. For a thread without the
/// GIL that is about to make a thread state: the locks that this takes are gone at the very end. A
/// thread that has a thread state need not call this (see ended_thread.cpp).
void hang_if_finalizing() noexcept;

} // namespace penstock::python
