// The prep methods of a ring. Each puts one operation into the submission queue.

#include "buffer_pool.hpp"
#include "buffer_ring.hpp"
#include "draft.hpp"

#include <algorithm>

#include <penstock/io/files/uring_compat.hpp>

namespace penstock::python::uring {

namespace {

RingObject* self_of(PyObject* object) noexcept {
    return reinterpret_cast<RingObject*>(object);
}

using Reading = PyObject* (*)(PyObject*, PyObject* const*, Py_ssize_t, PyObject*, bool);

/// The name of one method of a pair (reading, writing) that one function implements.
template <Reading function, bool reads>
PyObject* one_of_pair(PyObject* object, PyObject* const* arguments, Py_ssize_t count,
                      PyObject* keywords) {
    return function(object, arguments, count, keywords, reads);
}

/// The result of a transfer by a registered file's index shows whether it was aligned.
bool check_plain_alignment(RingObject* self, const Draft& draft, const Options& options) noexcept {
    return (options.flags & IOSQE_FIXED_FILE) != 0 || check_alignment(self, draft);
}

PyObject* prep_nop(PyObject* object, PyObject* const* arguments, Py_ssize_t count,
                   PyObject* keywords) {
    RingObject* self = self_of(object);
    PrepareParameters<0> parameters{};
    Options options;
    Draft draft(IORING_OP_NOP);
    draft.entry.fd = -1;
    return check_usable(self) &&
                   parameters.parse(self->state, "prep_nop", arguments, count, keywords, 0, options)
               ? commit(self, draft, options)
               : nullptr;
}

PyObject* prep_transfer(PyObject* object, PyObject* const* arguments, Py_ssize_t count,
                        PyObject* keywords, bool reads) noexcept {
    RingObject* self = self_of(object);
    PrepareParameters<3> parameters{Name::fd, reads ? Name::buffer : Name::data, Name::offset};
    Options options;
    Draft draft(reads ? IORING_OP_READ : IORING_OP_WRITE);
    return check_usable(self) &&
                   parameters.parse(self->state, reads ? "prep_read" : "prep_write", arguments,
                                    count, keywords, 2, options) &&
                   take_fd(draft, parameters[0], options) &&
                   (reads ? take_target(self, draft, parameters[1])
                          : take_source(self, draft, parameters[1])) &&
                   take_offset(draft, parameters[2]) && check_plain_alignment(self, draft, options)
               ? commit(self, draft, options)
               : nullptr;
}

/// The index of the registered buffer that contains the transfer.
bool take_index(Draft& draft, PyObject* object) noexcept {
    std::uint32_t index = 0;
    if (!take_flags(object, index)) {
        return false;
    }
    if (index > std::numeric_limits<std::uint16_t>::max()) {
        PyErr_Format(PyExc_ValueError, "there is no registered buffer %u", index);
        return false;
    }
    draft.entry.buffer = static_cast<std::uint16_t>(index);
    draft.fixed = true;
    return true;
}

PyObject* prep_fixed(PyObject* object, PyObject* const* arguments, Py_ssize_t count,
                     PyObject* keywords, bool reads) noexcept {
    RingObject* self = self_of(object);
    PrepareParameters<4> parameters{Name::fd, reads ? Name::buffer : Name::data, Name::buffer_index,
                                    Name::offset};
    Options options;
    Draft draft(reads ? IORING_OP_READ_FIXED : IORING_OP_WRITE_FIXED);
    if (!check_usable(self) ||
        !parameters.parse(self->state, reads ? "prep_read_fixed" : "prep_write_fixed", arguments,
                          count, keywords, 3, options) ||
        !take_fd(draft, parameters[0], options)) {
        return nullptr;
    }
    if (reads && PyLong_Check(parameters[1])) {
        PyErr_SetString(PyExc_TypeError,
                        "prep_read_fixed() reads into a registered buffer, not into a size");
        return nullptr;
    }
    if (!(reads ? take_target(self, draft, parameters[1])
                : take_source(self, draft, parameters[1])) ||
        !take_offset(draft, parameters[3]) || !check_plain_alignment(self, draft, options)) {
        return nullptr;
    }
    if (draft.buffers) {
        PyErr_SetString(PyExc_TypeError, "prep_read_fixed() cannot read into a buffer ring");
        return nullptr;
    }
    return take_index(draft, parameters[2]) ? commit(self, draft, options) : nullptr;
}

PyObject* prep_recv(PyObject* object, PyObject* const* arguments, Py_ssize_t count,
                    PyObject* keywords) {
    RingObject* self = self_of(object);
    PrepareParameters<3> parameters{Name::fd, Name::buffer, Name::flags};
    Options options;
    Draft draft(IORING_OP_RECV);
    std::uint32_t flags = 0;
    if (!check_usable(self) ||
        !parameters.parse(self->state, "prep_recv", arguments, count, keywords, 2, options) ||
        !take_fd(draft, parameters[0], options) || !take_flags(parameters[2], flags) ||
        !take_target(self, draft, parameters[1])) {
        return nullptr;
    }
    draft.entry.operation_flags = flags;
    return commit(self, draft, options);
}

/// Whether the object is a buffer ring. Only a buffer ring has room for several receives.
bool check_buffer_ring(const RingObject* self, const char* function, PyObject* object) noexcept {
    if (Py_IS_TYPE(object, self->state->buffer_ring_type)) {
        return true;
    }
    PyErr_Format(PyExc_TypeError,
                 "%s() needs a BufferRing, not %s: register_buffer_ring() makes one", function,
                 Py_TYPE(object)->tp_name);
    return false;
}

PyObject* prep_recv_multishot(PyObject* object, PyObject* const* arguments, Py_ssize_t count,
                              PyObject* keywords) {
    RingObject* self = self_of(object);
    PrepareParameters<3> parameters{Name::fd, Name::buffers, Name::flags};
    Options options;
    Draft draft(IORING_OP_RECV);
    std::uint32_t flags = 0;
    if (!check_usable(self) ||
        !parameters.parse(self->state, "prep_recv_multishot", arguments, count, keywords, 2,
                          options) ||
        !take_fd(draft, parameters[0], options) || !take_flags(parameters[2], flags) ||
        !check_buffer_ring(self, "prep_recv_multishot", parameters[1]) ||
        !take_target(self, draft, parameters[1])) {
        return nullptr;
    }
    draft.entry.operation_flags = flags;
    draft.entry.ioprio = IORING_RECV_MULTISHOT;
    return commit(self, draft, options);
}

PyObject* prep_read_multishot(PyObject* object, PyObject* const* arguments, Py_ssize_t count,
                              PyObject* keywords) {
    RingObject* self = self_of(object);
    PrepareParameters<2> parameters{Name::fd, Name::buffers};
    Options options;
    Draft draft(io::uring::op_read_multishot);
    draft.entry.offset = current_position;
    return check_usable(self) &&
                   parameters.parse(self->state, "prep_read_multishot", arguments, count, keywords,
                                    2, options) &&
                   take_fd(draft, parameters[0], options) &&
                   check_buffer_ring(self, "prep_read_multishot", parameters[1]) &&
                   take_target(self, draft, parameters[1])
               ? commit(self, draft, options)
               : nullptr;
}

PyObject* prep_send(PyObject* object, PyObject* const* arguments, Py_ssize_t count,
                    PyObject* keywords) {
    RingObject* self = self_of(object);
    PrepareParameters<4> parameters{Name::fd, Name::data, Name::flags, Name::zero_copy};
    Options options;
    Draft draft(IORING_OP_SEND);
    std::uint32_t flags = 0;
    if (!check_usable(self) ||
        !parameters.parse(self->state, "prep_send", arguments, count, keywords, 2, options) ||
        !take_fd(draft, parameters[0], options) || !take_flags(parameters[2], flags) ||
        !take_source(self, draft, parameters[1])) {
        return nullptr;
    }
    const int zero_copy = parameters[3] != nullptr ? PyObject_IsTrue(parameters[3]) : 0;
    if (zero_copy < 0) {
        return nullptr;
    }
    if (zero_copy > 0) {
        draft.entry.opcode = IORING_OP_SEND_ZC;
    }
    draft.entry.operation_flags = flags;
    return commit(self, draft, options);
}

/// Allocates room for `count` buffers. False with an exception set.
bool make_vectors(Draft& draft, std::size_t count) noexcept {
    try {
        draft.holdings.vectors = std::make_unique<Vectors>();
        draft.holdings.vectors->views.reserve(count);
        draft.holdings.vectors->parts.reserve(count);
    } catch (const std::bad_alloc&) {
        PyErr_NoMemory();
        return false;
    }
    return true;
}

/// Exports and lists the buffers of a vectored operation.
bool take_vectors(Draft& draft, PyObject* buffers, bool writable) noexcept {
    // A copy: exporting a buffer may run Python code that changes the list.
    const Ref sequence(PySequence_Tuple(buffers));
    if (!sequence) {
        return false;
    }
    const Py_ssize_t count = PyTuple_GET_SIZE(sequence.get());
    constexpr Py_ssize_t most = 1024; // UIO_MAXIOV
    if (count > most) {
        PyErr_Format(PyExc_ValueError, "%zd buffers: one operation takes at most %zd", count, most);
        return false;
    }
    if (!make_vectors(draft, static_cast<std::size_t>(count))) {
        return false;
    }
    Vectors& vectors = *draft.holdings.vectors;
    for (Py_ssize_t i = 0; i < count; ++i) {
        Py_buffer view{};
        if (PyObject_GetBuffer(PyTuple_GET_ITEM(sequence.get(), i), &view,
                               writable ? PyBUF_WRITABLE : PyBUF_SIMPLE) < 0) {
            return false;
        }
        vectors.views.push_back(view);
        vectors.parts.push_back(
            {.iov_base = view.buf, .iov_len = static_cast<std::size_t>(view.len)});
    }
    draft.point_to(vectors.parts.data(), vectors.parts.size());
    return true;
}

/// The result of a transfer by a registered file's index shows whether it was aligned.
bool check_vectors_aligned(RingObject* self, const Draft& draft, const Options& options) noexcept {
    if ((options.flags & IOSQE_FIXED_FILE) != 0) {
        return true;
    }
    const std::vector<iovec>& parts = draft.holdings.vectors->parts;
    return std::all_of(parts.begin(), parts.end(), [&](const iovec& part) {
        return check_alignment(self, draft.entry.fd,
                               reinterpret_cast<std::uintptr_t>(part.iov_base), part.iov_len,
                               draft.entry.offset);
    });
}

PyObject* prep_vectored(PyObject* object, PyObject* const* arguments, Py_ssize_t count,
                        PyObject* keywords, bool reads) noexcept {
    RingObject* self = self_of(object);
    PrepareParameters<4> parameters{Name::fd, Name::buffers, Name::offset, Name::flags};
    Options options;
    Draft draft(reads ? IORING_OP_READV : IORING_OP_WRITEV);
    std::uint32_t flags = 0;
    if (!check_usable(self) ||
        !parameters.parse(self->state, reads ? "prep_readv" : "prep_writev", arguments, count,
                          keywords, 2, options) ||
        !take_fd(draft, parameters[0], options) || !take_vectors(draft, parameters[1], reads) ||
        !take_offset(draft, parameters[2]) || !take_flags(parameters[3], flags) ||
        !check_vectors_aligned(self, draft, options)) {
        return nullptr;
    }
    draft.entry.operation_flags = flags;
    return commit(self, draft, options);
}

PyObject* prep_vectored_fixed(PyObject* object, PyObject* const* arguments, Py_ssize_t count,
                              PyObject* keywords, bool reads) noexcept {
    RingObject* self = self_of(object);
    PrepareParameters<5> parameters{Name::fd, Name::buffers, Name::buffer_index, Name::offset,
                                    Name::flags};
    Options options;
    Draft draft(reads ? io::uring::op_readv_fixed : io::uring::op_writev_fixed);
    std::uint32_t flags = 0;
    if (!check_usable(self) ||
        !parameters.parse(self->state, reads ? "prep_readv_fixed" : "prep_writev_fixed", arguments,
                          count, keywords, 3, options) ||
        !take_fd(draft, parameters[0], options) || !take_vectors(draft, parameters[1], reads) ||
        !take_index(draft, parameters[2]) || !take_offset(draft, parameters[3]) ||
        !take_flags(parameters[4], flags) || !check_vectors_aligned(self, draft, options)) {
        return nullptr;
    }
    draft.entry.operation_flags = flags;
    return commit(self, draft, options);
}

/// One of recvmsg(2) and sendmsg(2).
PyObject* prepare_message(RingObject* self, const char* function, unsigned opcode,
                          PyObject* const* arguments, Py_ssize_t count,
                          PyObject* keywords) noexcept {
    const bool receives = opcode == IORING_OP_RECVMSG;
    PrepareParameters<4> parameters{Name::fd, Name::buffers, Name::flags, Name::address};
    Options options;
    Draft draft(opcode);
    std::uint32_t flags = 0;
    if (!check_usable(self) ||
        !parameters.parse(self->state, function, arguments, count, keywords, 2, options) ||
        !take_fd(draft, parameters[0], options) || !take_vectors(draft, parameters[1], receives) ||
        !take_flags(parameters[2], flags)) {
        return nullptr;
    }
    Vectors& vectors = *draft.holdings.vectors;
    vectors.message.msg_iov = vectors.parts.data();
    vectors.message.msg_iovlen = vectors.parts.size();
    if (parameters[3] != nullptr && parameters[3] != Py_None) {
        if (PyObject_GetBuffer(parameters[3], &draft.holdings.view,
                               receives ? PyBUF_WRITABLE : PyBUF_SIMPLE) < 0) {
            return nullptr;
        }
        vectors.message.msg_name = draft.holdings.view.buf;
        vectors.message.msg_namelen = static_cast<socklen_t>(draft.holdings.view.len);
    }
    draft.point_to(&vectors.message, 1);
    draft.entry.operation_flags = flags;
    return commit(self, draft, options);
}

PyObject* prep_recvmsg(PyObject* object, PyObject* const* arguments, Py_ssize_t count,
                       PyObject* keywords) {
    return prepare_message(self_of(object), "prep_recvmsg", IORING_OP_RECVMSG, arguments, count,
                           keywords);
}

PyObject* prep_sendmsg(PyObject* object, PyObject* const* arguments, Py_ssize_t count,
                       PyObject* keywords) {
    return prepare_message(self_of(object), "prep_sendmsg", IORING_OP_SENDMSG, arguments, count,
                           keywords);
}

PyObject* prep_sendmsg_zc(PyObject* object, PyObject* const* arguments, Py_ssize_t count,
                          PyObject* keywords) {
    return prepare_message(self_of(object), "prep_sendmsg_zc", IORING_OP_SENDMSG_ZC, arguments,
                           count, keywords);
}

PyObject* prep_recvmsg_multishot(PyObject* object, PyObject* const* arguments, Py_ssize_t count,
                                 PyObject* keywords) {
    RingObject* self = self_of(object);
    PrepareParameters<5> parameters{Name::fd, Name::buffers, Name::flags, Name::address_size,
                                    Name::control_size};
    Options options;
    Draft draft(IORING_OP_RECVMSG);
    std::uint32_t flags = 0;
    std::uint32_t address_size = 0;
    std::uint32_t control_size = 0;
    if (!check_usable(self) ||
        !parameters.parse(self->state, "prep_recvmsg_multishot", arguments, count, keywords, 2,
                          options) ||
        !take_fd(draft, parameters[0], options) || !take_flags(parameters[2], flags) ||
        !take_flags(parameters[3], address_size) || !take_flags(parameters[4], control_size) ||
        !check_buffer_ring(self, "prep_recvmsg_multishot", parameters[1]) ||
        !take_target(self, draft, parameters[1]) || !make_vectors(draft, 0)) {
        return nullptr;
    }
    msghdr& message = draft.holdings.vectors->message;
    message.msg_namelen = address_size;
    message.msg_controllen = control_size;
    draft.point_to(&message, 1);
    draft.entry.operation_flags = flags;
    draft.entry.ioprio = IORING_RECV_MULTISHOT;
    return commit(self, draft, options);
}

/// An address field: a number, or a buffer whose address is used. Stores the buffer's size in
/// `length`.
bool take_address(Draft& draft, PyObject* object, std::uint64_t& address,
                  std::size_t& length) noexcept {
    if (object == nullptr) {
        return true;
    }
    if (PyLong_Check(object)) {
        const long long value = PyLong_AsLongLong(object);
        if (value == -1 && PyErr_Occurred() != nullptr) {
            return false;
        }
        address = static_cast<std::uint64_t>(value);
        return true;
    }
    constexpr std::size_t fields = 4;
    if (!draft.holdings.vectors && !make_vectors(draft, fields)) {
        return false;
    }
    Py_buffer view{};
    if (PyObject_GetBuffer(object, &view, PyBUF_SIMPLE) < 0) {
        return false;
    }
    draft.holdings.vectors->views.push_back(view);
    address = reinterpret_cast<std::uintptr_t>(view.buf);
    length = static_cast<std::size_t>(view.len);
    return true;
}

/// The Python half builds its operations on this method: a submission field by field.
PyObject* prep(PyObject* object, PyObject* const* arguments, Py_ssize_t count, PyObject* keywords) {
    RingObject* self = self_of(object);
    PrepareParameters<11> parameters{
        Name::opcode,  Name::fd,     Name::address,    Name::length,    Name::offset,
        Name::flags,   Name::ioprio, Name::file_index, Name::yields_fd, Name::third_address,
        Name::padding,
    };
    Options options;
    std::uint32_t opcode = 0;
    if (!check_usable(self) ||
        !parameters.parse(self->state, "_prep", arguments, count, keywords, 2, options) ||
        !take_flags(parameters[0], opcode)) {
        return nullptr;
    }
    Draft draft(opcode);
    const long fd = PyLong_Check(parameters[1]) ? PyLong_AsLong(parameters[1])
                                                : PyObject_AsFileDescriptor(parameters[1]);
    if (fd == -1 && PyErr_Occurred() != nullptr) {
        return nullptr;
    }
    if (fd < std::numeric_limits<int>::min() || fd > std::numeric_limits<int>::max()) {
        PyErr_Format(PyExc_ValueError, "%ld is not a descriptor", fd);
        return nullptr;
    }
    std::uint64_t address = 0;
    std::uint64_t offset = 0;
    std::uint64_t third_address = 0;
    std::uint64_t padding = 0;
    std::size_t address_length = 0;
    std::size_t unused = 0;
    std::uint32_t length = 0;
    std::uint32_t flags = 0;
    std::uint32_t ioprio = 0;
    std::uint32_t file_index = 0;
    if (!take_address(draft, parameters[2], address, address_length) ||
        !take_flags(parameters[3], length) || !take_address(draft, parameters[4], offset, unused) ||
        !take_flags(parameters[5], flags) || !take_flags(parameters[6], ioprio) ||
        !take_flags(parameters[7], file_index) ||
        !take_address(draft, parameters[9], third_address, unused) ||
        !take_address(draft, parameters[10], padding, unused)) {
        return nullptr;
    }
    const int yields_fd = parameters[8] != nullptr ? PyObject_IsTrue(parameters[8]) : 0;
    if (yields_fd < 0) {
        return nullptr;
    }
    draft.entry.fd = static_cast<int>(fd);
    draft.entry.address = address;
    draft.entry.offset = offset;
    draft.entry.length =
        parameters[3] != nullptr ? length : static_cast<std::uint32_t>(address_length);
    draft.entry.operation_flags = flags;
    draft.entry.ioprio = static_cast<std::uint16_t>(ioprio);
    draft.entry.file_index = file_index;
    draft.entry.third_address = third_address;
    draft.entry.padding = padding;
    draft.yields_fd = yields_fd > 0;
    return commit(self, draft, options);
}

/// The user_data that the kernel has for an operation in flight.
PyObject* key_of(PyObject* object, PyObject* tag) {
    RingObject* self = self_of(object);
    if (!check_usable(self)) {
        return nullptr;
    }
    const Py_hash_t hash = PyObject_Hash(tag);
    if (hash == -1) {
        return nullptr;
    }
    const std::uint32_t slot = self->operations.find(tag, hash);
    if (slot == OperationTable::no_slot) {
        if (PyErr_Occurred() == nullptr) {
            PyErr_Format(PyExc_KeyError, "nothing in flight has user_data %R", tag);
        }
        return nullptr;
    }
    return PyLong_FromUnsignedLongLong(self->operations.key(slot));
}

} // namespace

PyMethodDef prepare_methods[] = {
    {"prep_nop", as_function(&prep_nop), METH_FASTCALL | METH_KEYWORDS,
     "prep_nop(user_data=None, *, link=False, hardlink=False, drain=False, fixed_file=False, "
     "force_async=False, skip_success=False)\n--\n\n"
     "Prepare an operation that does nothing."},
    {"prep_read", as_function(&one_of_pair<&prep_transfer, true>), METH_FASTCALL | METH_KEYWORDS,
     "prep_read(fd, buffer, offset=-1, user_data=None, **options)\n--\n\n"
     "Prepare a read into `buffer`: a writable buffer, a BufferPool's buffer, a BufferRing, or a\n"
     "size; with a size the completion's result is the bytes. At `offset`, or at the file's own\n"
     "position for -1."},
    {"prep_write", as_function(&one_of_pair<&prep_transfer, false>), METH_FASTCALL | METH_KEYWORDS,
     "prep_write(fd, data, offset=-1, user_data=None, **options)\n--\n\n"
     "Prepare a write of `data` at `offset`, or at the file's own position for -1."},
    {"prep_read_fixed", as_function(&one_of_pair<&prep_fixed, true>), METH_FASTCALL | METH_KEYWORDS,
     "prep_read_fixed(fd, buffer, buffer_index, offset=-1, user_data=None, **options)\n--\n\n"
     "Prepare a read into a registered buffer, or a part of it."},
    {"prep_write_fixed", as_function(&one_of_pair<&prep_fixed, false>),
     METH_FASTCALL | METH_KEYWORDS,
     "prep_write_fixed(fd, data, buffer_index, offset=-1, user_data=None, **options)\n--\n\n"
     "Prepare a write of a registered buffer, or a part of it."},
    {"prep_recv", as_function(&prep_recv), METH_FASTCALL | METH_KEYWORDS,
     "prep_recv(fd, buffer, flags=0, user_data=None, **options)\n--\n\n"
     "Prepare a receive; `buffer` is as with prep_read(), `flags` are MSG_* of recv(2)."},
    {"prep_recv_multishot", as_function(&prep_recv_multishot), METH_FASTCALL | METH_KEYWORDS,
     "prep_recv_multishot(fd, buffers, flags=0, user_data=None, **options)\n--\n\n"
     "Prepare repeated receives, into the buffers of a BufferRing, until a completion without\n"
     "CQE_F_MORE."},
    {"prep_read_multishot", as_function(&prep_read_multishot), METH_FASTCALL | METH_KEYWORDS,
     "prep_read_multishot(fd, buffers, user_data=None, **options)\n--\n\n"
     "Prepare repeated reads of a pipe or a terminal, into the buffers of a BufferRing.\n"
     "Linux 6.7."},
    {"prep_send", as_function(&prep_send), METH_FASTCALL | METH_KEYWORDS,
     "prep_send(fd, data, flags=0, zero_copy=False, user_data=None, **options)\n--\n\n"
     "Prepare a send; `flags` are MSG_* of send(2). With `zero_copy` (Linux 6.0) there are two\n"
     "completions: the result, with CQE_F_MORE, and one with CQE_F_NOTIF once the kernel no\n"
     "longer uses the data. The data must not change before that."},
    {"prep_readv", as_function(&one_of_pair<&prep_vectored, true>), METH_FASTCALL | METH_KEYWORDS,
     "prep_readv(fd, buffers, offset=-1, flags=0, user_data=None, **options)\n--\n\n"
     "Prepare a read into several buffers; `flags` are RWF_* of preadv2(2)."},
    {"prep_writev", as_function(&one_of_pair<&prep_vectored, false>), METH_FASTCALL | METH_KEYWORDS,
     "prep_writev(fd, buffers, offset=-1, flags=0, user_data=None, **options)\n--\n\n"
     "Prepare a write of several buffers; `flags` are RWF_* of pwritev2(2)."},
    {"prep_readv_fixed", as_function(&one_of_pair<&prep_vectored_fixed, true>),
     METH_FASTCALL | METH_KEYWORDS,
     "prep_readv_fixed(fd, buffers, buffer_index, offset=-1, flags=0, user_data=None, **options)"
     "\n--\n\n"
     "Prepare a read into several parts of one registered buffer. Linux 6.15."},
    {"prep_writev_fixed", as_function(&one_of_pair<&prep_vectored_fixed, false>),
     METH_FASTCALL | METH_KEYWORDS,
     "prep_writev_fixed(fd, buffers, buffer_index, offset=-1, flags=0, user_data=None, **options)"
     "\n--\n\n"
     "Prepare a write of several parts of one registered buffer. Linux 6.15."},
    {"prep_recvmsg", as_function(&prep_recvmsg), METH_FASTCALL | METH_KEYWORDS,
     "prep_recvmsg(fd, buffers, flags=0, address=None, user_data=None, **options)\n--\n\n"
     "Prepare a receive into several buffers; the sender's sockaddr goes into `address`, a\n"
     "bytearray."},
    {"prep_recvmsg_multishot", as_function(&prep_recvmsg_multishot), METH_FASTCALL | METH_KEYWORDS,
     "prep_recvmsg_multishot(fd, buffers, flags=0, address_size=0, control_size=0, user_data=None, "
     "**options)\n--\n\n"
     "Prepare repeated receives of messages, into the buffers of a BufferRing, until a completion\n"
     "without CQE_F_MORE; an empty message also ends it. ReceivedMessage.parse() reads a buffer's\n"
     "bytes, which begin with `address_size` bytes for the sender's sockaddr and `control_size`\n"
     "bytes for control data. Linux 6.0."},
    {"prep_sendmsg_zc", as_function(&prep_sendmsg_zc), METH_FASTCALL | METH_KEYWORDS,
     "prep_sendmsg_zc(fd, buffers, flags=0, address=None, user_data=None, **options)\n--\n\n"
     "Prepare a send of several buffers without copying them; it has two completions, as with\n"
     "prep_send(zero_copy=True). Linux 6.1."},
    {"prep_sendmsg", as_function(&prep_sendmsg), METH_FASTCALL | METH_KEYWORDS,
     "prep_sendmsg(fd, buffers, flags=0, address=None, user_data=None, **options)\n--\n\n"
     "Prepare a send of several buffers, to the sockaddr in `address`."},
    {"_prep", as_function(&prep), METH_FASTCALL | METH_KEYWORDS,
     "Prepare an operation field by field. A buffer passed as address or offset means the address\n"
     "of its memory, and is held until the final completion."},
    {"_key", &key_of, METH_O, "The kernel's identifier of the operation with this user_data."},
    {nullptr, nullptr, 0, nullptr},
};

} // namespace penstock::python::uring
