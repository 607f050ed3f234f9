// The scope of a request: a copy of its connection's prototype, and what differs in each request.

#include "asgi/http_connection.hpp"

#include <cstring>
#include <new>
#include <string>

#include <penstock/codec/http/target.hpp>

namespace penstock::python {

namespace {

/// A longer head is not kept for the next request.
constexpr std::size_t longest_kept = 4096;

Ref bytes_of(std::string_view text) noexcept {
    return Ref(PyBytes_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size())));
}

/// Text that the parser has accepted as a token or a target: ASCII.
Ref ascii_text(std::string_view text) noexcept {
    Ref made(PyUnicode_New(static_cast<Py_ssize_t>(text.size()), 127));
    if (made && !text.empty()) {
        std::memcpy(PyUnicode_1BYTE_DATA(made.get()), text.data(), text.size());
    }
    return made;
}

bool is_plain(std::string_view path) noexcept {
    for (const char c : path) {
        if (c == '%' || static_cast<unsigned char>(c) >= 0x80) {
            return false;
        }
    }
    return true;
}

/// The decoded path, with U+FFFD for what is not UTF-8.
Ref decoded_path(std::string_view path) {
    if (is_plain(path)) {
        return ascii_text(path);
    }
    const std::string decoded = http::percent_decode(path);
    return Ref(
        PyUnicode_DecodeUTF8(decoded.data(), static_cast<Py_ssize_t>(decoded.size()), "replace"));
}

/// Puts a pair into its place of a new list. False with an exception set.
bool put(PyObject* list, Py_ssize_t place, Ref name, Ref value) noexcept {
    PyObject* pair = name && value ? PyTuple_New(2) : nullptr;
    if (pair == nullptr) {
        return false;
    }
    PyTuple_SET_ITEM(pair, 0, name.release());
    PyTuple_SET_ITEM(pair, 1, value.release());
    PyList_SET_ITEM(list, place, pair);
    return true;
}

/// The scope's headers. An `authority` in the target is the host, whatever Host says (RFC 9112,
/// 3.2.2); a request of HTTP/1.0 has no Host, and then it comes first.
Ref list_of_fields(HttpServerObject* server, const http::Fields& fields,
                   std::string_view authority) noexcept {
    FieldNames& names = server->shared->names;
    const bool added = !authority.empty() && !fields.find("host");
    Ref list(PyList_New(static_cast<Py_ssize_t>(fields.size() + (added ? 1 : 0))));
    Py_ssize_t place = 0;
    if (list && added && !put(list.get(), place++, names.lower("host"), bytes_of(authority))) {
        return Ref();
    }
    for (std::size_t i = 0; list && i < fields.size(); ++i) {
        const bool replaced =
            !authority.empty() && http::equal_ignoring_case(fields[i].name, "host");
        if (!put(list.get(), place++, names.lower(fields[i].name),
                 bytes_of(replaced ? authority : fields[i].value))) {
            return Ref();
        }
    }
    return list;
}

using Dictionaries = std::array<PyObject*, 3>;

/// The keys of dictionaries of which each scope has copies: applications write into them.
Dictionaries copied_keys(const ModuleState* state) noexcept {
    return {state->name_asgi, state->name_extensions, state->name_state};
}

/// The values under those keys: null where one is not a dictionary. False with an exception set.
bool find_copied(const ModuleState* state, PyObject* scope, Dictionaries& found) noexcept {
    const Dictionaries keys = copied_keys(state);
    for (std::size_t i = 0; i < keys.size(); ++i) {
        PyObject* value = PyDict_GetItemWithError(scope, keys[i]);
        if (value == nullptr && PyErr_Occurred() != nullptr) {
            return false;
        }
        found[i] = value != nullptr && PyDict_Check(value) ? value : nullptr;
    }
    return true;
}

/// Puts copies of the dictionaries into a scope. False with an exception set.
bool put_copies(const ModuleState* state, PyObject* scope, const Dictionaries& shared) noexcept {
    const Dictionaries keys = copied_keys(state);
    for (std::size_t i = 0; i < keys.size(); ++i) {
        if (shared[i] == nullptr) {
            continue;
        }
        const Ref copy(PyDict_Copy(shared[i]));
        if (!copy || PyDict_SetItem(scope, keys[i], copy.get()) != 0) {
            return false;
        }
    }
    return true;
}

/// `path` behind the root path. Null with an exception set.
Ref rooted(PyObject* root, Ref path, bool raw) noexcept {
    if (!path || root == nullptr || PyUnicode_GET_LENGTH(root) == 0) {
        return path;
    }
    if (!raw) {
        return Ref(PyUnicode_Concat(root, path.get()));
    }
    PyObject* joined = PyUnicode_AsUTF8String(root);
    PyBytes_Concat(&joined, path.get());
    return Ref(joined);
}

/// The prototype with the request line of the last head. Null with an exception set.
Ref scope_of_line(HttpConnectionObject* connection) noexcept {
    const LastHead& last = connection->bytes->last;
    const ModuleState* state = state_of(Py_TYPE(connection->server));
    Ref scope(PyDict_Copy(connection->prototype));
    const auto set = [&](PyObject* key, PyObject* value) {
        return PyDict_SetItem(scope.get(), key, value) == 0;
    };
    return scope && set(state->name_method, last.method) && set(state->name_path, last.path) &&
                   set(state->name_raw_path, last.raw_path) &&
                   set(state->name_query_string, last.query)
               ? std::move(scope)
               : Ref();
}

/// Whether one of the fields is a proxy's that tells of its client.
bool is_forwarded(PyObject* headers) noexcept {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(headers); ++i) {
        PyObject* name = PyTuple_GET_ITEM(PyList_GET_ITEM(headers, i), 0);
        const std::string_view text(PyBytes_AS_STRING(name),
                                    static_cast<std::size_t>(PyBytes_GET_SIZE(name)));
        if (text == "x-forwarded-for" || text == "x-forwarded-proto") {
            return true;
        }
    }
    return false;
}

/// Gives a scope what belongs to it alone: its headers, and copies of what all scopes have. Null
/// with an exception set.
Ref completed(HttpConnectionObject* connection, Ref scope, const Dictionaries& shared) noexcept {
    const LastHead& last = connection->bytes->last;
    const ModuleState* state = state_of(Py_TYPE(connection->server));
    const Ref headers(scope ? PyList_GetSlice(last.headers, 0, PyList_GET_SIZE(last.headers))
                            : nullptr);
    if (!headers || PyDict_SetItem(scope.get(), state->name_headers, headers.get()) != 0 ||
        !put_copies(state, scope.get(), shared)) {
        return Ref();
    }
    if (last.forwarded) {
        const Ref correct = Ref::borrow(connection->server->forwarded);
        if (!Ref(PyObject_CallOneArg(correct.get(), scope.get()))) {
            return Ref();
        }
    }
    return scope;
}

} // namespace

void LastHead::clear() noexcept {
    text.clear();
    Py_CLEAR(method);
    Py_CLEAR(path);
    Py_CLEAR(raw_path);
    Py_CLEAR(query);
    Py_CLEAR(headers);
    Py_CLEAR(scope);
}

int LastHead::visit(visitproc visit, void* arg) const noexcept {
    Py_VISIT(headers);
    Py_VISIT(scope); // the others are str and bytes
    return 0;
}

bool keep_head(HttpConnectionObject* connection, std::string_view method,
               std::string_view target_text, Ref headers) {
    const ModuleState* state = state_of(Py_TYPE(connection->server));
    LastHead& last = connection->bytes->last;
    last.clear();
    const http::Target target = http::split_target(target_text);
    PyObject* root = PyDict_GetItemWithError(connection->prototype, state->name_root_path);
    last.path = rooted(root, decoded_path(target.path), false).release();
    last.raw_path = rooted(root, bytes_of(target.path), true).release();
    last.query = bytes_of(target.query).release();
    last.method = method == "GET" ? Py_NewRef(state->name_get) : ascii_text(method).release();
    last.headers = headers.release();
    if (last.path == nullptr || last.raw_path == nullptr || last.query == nullptr ||
        last.method == nullptr || last.headers == nullptr) {
        last.clear();
        return false;
    }
    last.is_head = method == "HEAD";
    last.forwarded = connection->server->forwarded != Py_None && is_forwarded(last.headers);
    return true;
}

Ref make_scope(HttpConnectionObject* connection, const http::RequestHead& head,
               std::string_view text) {
    const ModuleState* state = state_of(Py_TYPE(connection->server));
    LastHead& last = connection->bytes->last;
    if (!keep_head(connection, head.method, head.target,
                   list_of_fields(connection->server, head.fields,
                                  http::split_target(head.target).authority))) {
        return Ref();
    }
    last.keep_alive = head.keep_alive;
    Ref scope = scope_of_line(connection);
    Dictionaries shared{};
    if (scope && !find_copied(state, scope.get(), shared)) {
        return Ref();
    }
    scope = completed(connection, std::move(scope), shared);
    if (head.minor_version == 0) {
        const Ref version(PyUnicode_FromString("1.0"));
        if (!scope || !version ||
            PyDict_SetItem(scope.get(), state->name_http_version, version.get()) != 0) {
            return Ref();
        }
    }
    last.body = head.body;
    // An upgrade or an expectation begins something that is not kept.
    const bool plain = !head.upgrade && !head.expect_continue && head.minor_version == 1;
    if (plain && text.size() <= longest_kept) {
        last.text = text;
    } else {
        last.clear();
    }
    return scope;
}

Ref repeat_scope(HttpConnectionObject* connection) noexcept {
    LastHead& last = connection->bytes->last;
    if (last.scope == nullptr) {
        Ref scope = scope_of_line(connection);
        if (!scope ||
            !find_copied(state_of(Py_TYPE(connection->server)), scope.get(), last.copied)) {
            return Ref();
        }
        last.scope = scope.release();
    }
    return completed(connection, Ref(PyDict_Copy(last.scope)), last.copied);
}

} // namespace penstock::python
