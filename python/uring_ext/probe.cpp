// Finds out by trying which parts of io_uring this kernel and this process may use.

#include "module.hpp"
#include "setup.hpp"

#include <cerrno>

#include <liburing.h>

namespace penstock::python::uring {

namespace {

/// Tries to make a ring with these flags. Returns 0, or the errno of the kernel's refusal.
int try_flags(unsigned flags) noexcept {
    io_uring ring{};
    io_uring_params params{};
    params.flags = flags;
    const int result = set_up_ring(2, ring, params);
    if (result == 0) {
        io_uring_queue_exit(&ring);
    }
    return -result;
}

bool set_number(PyObject* dictionary, const char* name, unsigned long value) noexcept {
    const Ref number(PyLong_FromUnsignedLong(value));
    return number && PyDict_SetItemString(dictionary, name, number.get()) == 0;
}

/// The opcodes that the ring's kernel supports: bytes with a 1 for each.
Ref known_opcodes(io_uring* ring) noexcept {
    io_uring_probe* probe = io_uring_get_probe_ring(ring);
    if (probe == nullptr) {
        return Ref(PyBytes_FromStringAndSize("", 0));
    }
    Ref opcodes(PyBytes_FromStringAndSize(nullptr, probe->ops_len));
    for (unsigned i = 0; opcodes && i < probe->ops_len; ++i) {
        PyBytes_AS_STRING(opcodes.get())[i] =
            (probe->ops[i].flags & IO_URING_OP_SUPPORTED) != 0 ? 1 : 0;
    }
    io_uring_free_probe(probe);
    return opcodes;
}

} // namespace

PyObject* probe_kernel(PyObject* /*module*/, PyObject* /*unused*/) {
    io_uring_params params{};
    io_uring ring{};
    Ref found(PyDict_New());
    if (!found) {
        return nullptr;
    }
    // As large as a UringCtx is by default: where memory is short, a smaller ring would prove
    // nothing.
    constexpr unsigned entries = 256;
    params.flags = IORING_SETUP_CQSIZE;
    params.cq_entries = 4 * entries;
    const int result = set_up_ring(entries, ring, params);
    if (!set_number(found.get(), "error", static_cast<unsigned long>(-result))) {
        return nullptr;
    }
    if (result < 0) {
        return found.release();
    }
    const Ref opcodes = known_opcodes(&ring);
    io_uring_queue_exit(&ring);
    unsigned setup = 0;
    for (const unsigned flags :
         {IORING_SETUP_SQPOLL, IORING_SETUP_SUBMIT_ALL, IORING_SETUP_COOP_TASKRUN,
          IORING_SETUP_SINGLE_ISSUER, IORING_SETUP_IOPOLL}) {
        setup |= try_flags(flags) == 0 ? flags : 0;
    }
    // The kernel does not accept this flag alone.
    const unsigned deferred = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN;
    setup |= try_flags(deferred) == 0 ? static_cast<unsigned>(IORING_SETUP_DEFER_TASKRUN) : 0U;
    if (!opcodes || PyDict_SetItemString(found.get(), "opcodes", opcodes.get()) < 0 ||
        !set_number(found.get(), "features", params.features) ||
        !set_number(found.get(), "setup_flags", setup)) {
        return nullptr;
    }
    return found.release();
}

} // namespace penstock::python::uring
