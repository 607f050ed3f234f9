// The fields that an application gives to its response: checked, and written into the head.

#include "asgi/response_fields.hpp"

#include "asgi/response_text.hpp"

#include <charconv>
#include <string_view>
#include <utility>

#include <penstock/codec/http/head_writer.hpp>

namespace penstock::python {

namespace {

class FieldsWriter {
public:
    FieldsWriter(codec::ByteBuffer& head, int status, ResponseFacts& facts) noexcept
        : head_(head), facts_(facts), forbids_length_(status == 204) {}

    /// False with an exception set. Throws `std::bad_alloc`.
    bool add(PyObject* name, PyObject* value) {
        if (!PyBytes_Check(name) || !PyBytes_Check(value)) {
            PyErr_Format(PyExc_TypeError,
                         "a response header is a pair of bytes, not of %.100s and %.100s",
                         Py_TYPE(name)->tp_name, Py_TYPE(value)->tp_name);
            return false;
        }
        const std::string_view key(PyBytes_AS_STRING(name),
                                   static_cast<std::size_t>(PyBytes_GET_SIZE(name)));
        const std::string_view text(PyBytes_AS_STRING(value),
                                    static_cast<std::size_t>(PyBytes_GET_SIZE(value)));
        switch (key.size()) {
        case 4:
            facts_.has_date |= http::equal_ignoring_case(key, "date");
            break;
        case 6:
            facts_.has_server |= http::equal_ignoring_case(key, "server");
            break;
        case 10:
            if (http::equal_ignoring_case(key, "connection")) {
                http::Field field{.name = key, .value = text};
                facts_.closes |= http::Fields({&field, 1}).has_token("connection", "close");
                return true; // the server's own says it
            }
            break;
        case 14:
            if (http::equal_ignoring_case(key, "content-length")) {
                return set_length(text, value);
            }
            break;
        case 17:
            if (http::equal_ignoring_case(key, "transfer-encoding")) {
                return true; // the server's business
            }
            break;
        default:
            break;
        }
        if (!append_head(head_, [&](http::HeadWriter& head) { head.field(key, text); })) {
            PyErr_Format(PyExc_ValueError, "the response header %R: %R cannot be sent", name,
                         value);
            return false;
        }
        return true;
    }

private:
    bool set_length(std::string_view text, PyObject* value) {
        std::uint64_t length = 0;
        const char* begin = PyBytes_AS_STRING(value);
        const char* end = begin + PyBytes_GET_SIZE(value);
        const auto parsed = std::from_chars(begin, end, length);
        if (text.empty() || parsed.ptr != end || parsed.ec != std::errc() ||
            length > (std::uint64_t{1} << 63) - 1 || text.front() == '-') {
            PyErr_Format(PyExc_ValueError, "content-length is not a number of bytes: %R", value);
            return false;
        }
        if (facts_.has_length && length != facts_.length) {
            PyErr_SetString(PyExc_ValueError, "the response has two different content-lengths");
            return false;
        }
        if (forbids_length_ || std::exchange(facts_.has_length, true)) {
            return true;
        }
        facts_.length = length;
        return append_head(head_,
                           [&](http::HeadWriter& head) { head.field("content-length", length); });
    }

    codec::ByteBuffer& head_;
    ResponseFacts& facts_;
    bool forbids_length_;
};

/// Whether reading an object as a sequence runs no code of the program.
bool is_list_or_tuple(PyObject* object) noexcept {
    return PyList_CheckExact(object) || PyTuple_CheckExact(object);
}

/// The same for all pairs in it.
bool is_plain(PyObject* headers) noexcept {
    if (!is_list_or_tuple(headers)) {
        return false;
    }
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(headers); ++i) {
        PyObject* pair = PySequence_Fast_GET_ITEM(headers, i);
        if (!is_list_or_tuple(pair) || PySequence_Fast_GET_SIZE(pair) != 2) {
            return false;
        }
    }
    return true;
}

/// All of plain fields. False with an exception set. Throws `std::bad_alloc`.
bool add_all(FieldsWriter& fields, PyObject* headers) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(headers); ++i) {
        PyObject* pair = PySequence_Fast_GET_ITEM(headers, i);
        // An error that tells them may change a list.
        const Ref name = Ref::borrow(PySequence_Fast_GET_ITEM(pair, 0));
        const Ref value = Ref::borrow(PySequence_Fast_GET_ITEM(pair, 1));
        if (!fields.add(name.get(), value.get())) {
            return false;
        }
    }
    return true;
}

} // namespace

Ref plain_fields(PyObject* headers) noexcept {
    if (is_plain(headers)) {
        return Ref::borrow(headers);
    }
    const Ref items(PySequence_Fast(headers, "the headers of a response must be iterable"));
    Ref pairs(items ? PyList_New(0) : nullptr);
    // The code behind a pair may change a list of them.
    for (Py_ssize_t i = 0; pairs && i < PySequence_Fast_GET_SIZE(items.get()); ++i) {
        const Ref item = Ref::borrow(PySequence_Fast_GET_ITEM(items.get(), i));
        const Ref pair(PySequence_Fast(item.get(), "a response header must be a pair of bytes"));
        // A list may be changed by the code behind the next pairs.
        const Ref kept(pair ? PySequence_Tuple(pair.get()) : nullptr);
        if (!kept) {
            return Ref();
        }
        if (PyTuple_GET_SIZE(kept.get()) != 2) {
            PyErr_Format(PyExc_ValueError, "a response header is a pair of bytes, not %R",
                         item.get());
            return Ref();
        }
        if (PyList_Append(pairs.get(), kept.get()) != 0) {
            return Ref();
        }
    }
    return pairs;
}

bool add_fields(HttpServerObject* server, codec::ByteBuffer& head, int status, PyObject* headers,
                ResponseFacts& facts) {
    if (headers == nullptr) {
        return true;
    }
    KnownFields& known = server->shared->known_fields;
    const bool has_usual_text = status != 204; // a length is left out there
    if (const KnownFields::List* list = has_usual_text ? known.find(headers) : nullptr) {
        append(head, list->text);
        facts = list->facts;
        return true;
    }
    const std::size_t begin = head.size();
    FieldsWriter fields(head, status, facts);
    if (!add_all(fields, headers)) {
        return false;
    }
    if (has_usual_text) {
        known.keep(headers, text_in(head).substr(begin), facts);
    }
    return true;
}

} // namespace penstock::python
