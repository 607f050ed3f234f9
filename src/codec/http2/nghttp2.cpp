#include "codec/http2/nghttp2.hpp"

#include <dlfcn.h>

namespace penstock::codec::http2::nghttp2 {

namespace {

template <typename Function>
bool find(void* loaded, const char* name, Function& function) noexcept {
    function = reinterpret_cast<Function>(::dlsym(loaded, name));
    return function != nullptr;
}

#define PENSTOCK_FIND(function) find(loaded, "nghttp2_" #function, found.function)

bool find_all(void* loaded, Library& found) noexcept {
    PENSTOCK_FIND(option_set_stream_reset_rate_limit);
    PENSTOCK_FIND(option_set_max_continuations);
    PENSTOCK_FIND(option_set_glitch_rate_limit);
    return PENSTOCK_FIND(session_callbacks_new) && PENSTOCK_FIND(session_callbacks_del) &&
           PENSTOCK_FIND(session_callbacks_set_on_begin_headers_callback) &&
           PENSTOCK_FIND(session_callbacks_set_on_header_callback) &&
           PENSTOCK_FIND(session_callbacks_set_on_frame_recv_callback) &&
           PENSTOCK_FIND(session_callbacks_set_on_frame_send_callback) &&
           PENSTOCK_FIND(session_callbacks_set_on_data_chunk_recv_callback) &&
           PENSTOCK_FIND(session_callbacks_set_on_stream_close_callback) &&
           PENSTOCK_FIND(session_callbacks_set_send_data_callback) && PENSTOCK_FIND(option_new) &&
           PENSTOCK_FIND(option_del) && PENSTOCK_FIND(option_set_no_auto_window_update) &&
           PENSTOCK_FIND(option_set_max_outbound_ack) &&
           PENSTOCK_FIND(option_set_max_deflate_dynamic_table_size) &&
           PENSTOCK_FIND(session_server_new2) && PENSTOCK_FIND(session_del) &&
           PENSTOCK_FIND(session_mem_recv) && PENSTOCK_FIND(session_mem_send) &&
           PENSTOCK_FIND(session_want_read) && PENSTOCK_FIND(session_want_write) &&
           PENSTOCK_FIND(session_set_local_window_size) &&
           PENSTOCK_FIND(session_consume_connection) && PENSTOCK_FIND(session_consume_stream) &&
           PENSTOCK_FIND(session_resume_data) && PENSTOCK_FIND(session_terminate_session) &&
           PENSTOCK_FIND(session_set_stream_user_data) &&
           PENSTOCK_FIND(session_get_stream_user_data) &&
           PENSTOCK_FIND(session_get_stream_remote_close) &&
           PENSTOCK_FIND(session_get_last_proc_stream_id) && PENSTOCK_FIND(submit_settings) &&
           PENSTOCK_FIND(submit_headers) && PENSTOCK_FIND(submit_response) &&
           PENSTOCK_FIND(submit_rst_stream) && PENSTOCK_FIND(submit_goaway);
}

#undef PENSTOCK_FIND

struct Finding {
    Finding() noexcept {
        // Never closed: sessions may live as long as the process.
        void* loaded = ::dlopen("libnghttp2.so.14", RTLD_NOW | RTLD_LOCAL);
        usable = loaded != nullptr && find_all(loaded, functions);
    }

    Library functions{};
    bool usable = false;
};

} // namespace

const Library* library() noexcept {
    static const Finding finding;
    return finding.usable ? &finding.functions : nullptr;
}

} // namespace penstock::codec::http2::nghttp2
