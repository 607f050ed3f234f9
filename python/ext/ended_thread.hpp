#pragma once

namespace penstock::python {

/// Keeps the calling thread here for good if the interpreter has begun to exit. For a thread without the
/// GIL that is about to make a thread state: the locks that this takes are gone at the very end. One that
/// already has a thread state need not ask (see ended_thread.cpp).
void stay_if_interpreter_ends() noexcept;

} // namespace penstock::python
