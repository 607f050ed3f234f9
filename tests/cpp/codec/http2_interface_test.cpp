// What is declared of libnghttp2 is what its header declares, where that is installed.

#include "codec/http2/nghttp2.hpp"

#include <gtest/gtest.h>

#if __has_include(<nghttp2/nghttp2.h>)
#include <cstddef>
#include <type_traits>

#include <nghttp2/nghttp2.h>

namespace {

namespace own = penstock::codec::http2::nghttp2;

static_assert(sizeof(own::FrameHead) == sizeof(nghttp2_frame_hd));
static_assert(offsetof(own::FrameHead, stream_id) == offsetof(nghttp2_frame_hd, stream_id));
static_assert(offsetof(own::FrameHead, type) == offsetof(nghttp2_frame_hd, type));
static_assert(offsetof(own::FrameHead, flags) == offsetof(nghttp2_frame_hd, flags));
static_assert(offsetof(own::Frame, error_code) == offsetof(nghttp2_rst_stream, error_code));
static_assert(sizeof(own::Field) == sizeof(nghttp2_nv));
static_assert(offsetof(own::Field, name) == offsetof(nghttp2_nv, name));
static_assert(offsetof(own::Field, value) == offsetof(nghttp2_nv, value));
static_assert(offsetof(own::Field, name_size) == offsetof(nghttp2_nv, namelen));
static_assert(offsetof(own::Field, value_size) == offsetof(nghttp2_nv, valuelen));
static_assert(offsetof(own::Field, flags) == offsetof(nghttp2_nv, flags));
static_assert(sizeof(own::Setting) == sizeof(nghttp2_settings_entry));
static_assert(offsetof(own::Setting, value) == offsetof(nghttp2_settings_entry, value));
static_assert(sizeof(own::Source) == sizeof(nghttp2_data_source));
static_assert(sizeof(own::DataProvider) == sizeof(nghttp2_data_provider));
static_assert(offsetof(own::DataProvider, read) == offsetof(nghttp2_data_provider, read_callback));

static_assert(own::frame::data == NGHTTP2_DATA && own::frame::headers == NGHTTP2_HEADERS &&
              own::frame::rst_stream == NGHTTP2_RST_STREAM &&
              own::frame::continuation == NGHTTP2_CONTINUATION &&
              own::frame::end_stream == NGHTTP2_FLAG_END_STREAM);
static_assert(own::setting::max_concurrent_streams == NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS &&
              own::setting::initial_window_size == NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE &&
              own::setting::max_header_list_size == NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE &&
              own::setting::enable_connect_protocol == NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL);
static_assert(own::data_eof == NGHTTP2_DATA_FLAG_EOF &&
              own::data_no_copy == NGHTTP2_DATA_FLAG_NO_COPY);
static_assert(own::deferred == NGHTTP2_ERR_DEFERRED &&
              own::temporal_callback_failure == NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE &&
              own::no_memory == NGHTTP2_ERR_NOMEM &&
              own::callback_failure == NGHTTP2_ERR_CALLBACK_FAILURE);

static_assert(
    std::is_same_v<decltype(own::Library::session_mem_send), decltype(&nghttp2_session_mem_send)>);
static_assert(
    std::is_same_v<decltype(own::Library::session_mem_recv), decltype(&nghttp2_session_mem_recv)>);
static_assert(std::is_same_v<decltype(own::Library::session_want_read),
                             decltype(&nghttp2_session_want_read)>);
static_assert(std::is_same_v<decltype(own::Library::session_set_local_window_size),
                             decltype(&nghttp2_session_set_local_window_size)>);
static_assert(std::is_same_v<decltype(own::Library::session_consume_connection),
                             decltype(&nghttp2_session_consume_connection)>);
static_assert(std::is_same_v<decltype(own::Library::session_consume_stream),
                             decltype(&nghttp2_session_consume_stream)>);
static_assert(std::is_same_v<decltype(own::Library::session_resume_data),
                             decltype(&nghttp2_session_resume_data)>);
static_assert(std::is_same_v<decltype(own::Library::session_terminate_session),
                             decltype(&nghttp2_session_terminate_session)>);
static_assert(std::is_same_v<decltype(own::Library::session_set_stream_user_data),
                             decltype(&nghttp2_session_set_stream_user_data)>);
static_assert(std::is_same_v<decltype(own::Library::session_get_stream_user_data),
                             decltype(&nghttp2_session_get_stream_user_data)>);
static_assert(std::is_same_v<decltype(own::Library::session_get_last_proc_stream_id),
                             decltype(&nghttp2_session_get_last_proc_stream_id)>);
static_assert(std::is_same_v<decltype(own::Library::submit_rst_stream),
                             decltype(&nghttp2_submit_rst_stream)>);
static_assert(
    std::is_same_v<decltype(own::Library::submit_goaway), decltype(&nghttp2_submit_goaway)>);
static_assert(std::is_same_v<decltype(own::Library::option_set_max_outbound_ack),
                             decltype(&nghttp2_option_set_max_outbound_ack)>);

TEST(Http2Interface, TheInstalledLibraryHasAllOfIt) {
    EXPECT_NE(own::library(), nullptr);
}

} // namespace
#endif
