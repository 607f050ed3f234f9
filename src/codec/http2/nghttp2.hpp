#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

// What nghttp2/nghttp2.h declares, as far as it is used here: the interface of libnghttp2.so.14,
// which its versions since 2015 share. Declared here, a build needs no header of it, and a process
// no library until the first connection asks for HTTP/2. A test compares it with the header.

struct nghttp2_session;
struct nghttp2_session_callbacks;
struct nghttp2_option;

namespace penstock::codec::http2::nghttp2 {

struct FrameHead {
    std::size_t length;
    std::int32_t stream_id;
    std::uint8_t type;
    std::uint8_t flags;
    std::uint8_t reserved;
};

/// The front of the union nghttp2_frame, as far as an RST_STREAM or GOAWAY goes.
struct Frame {
    FrameHead head;
    std::uint32_t error_code; ///< of RST_STREAM
};

struct Field {
    std::uint8_t* name;
    std::uint8_t* value;
    std::size_t name_size;
    std::size_t value_size;
    std::uint8_t flags;
};

struct Setting {
    std::int32_t id;
    std::uint32_t value;
};

union Source {
    int descriptor;
    void* pointer;
};

using ReadBody = ssize_t (*)(nghttp2_session*, std::int32_t stream_id, std::uint8_t* buffer,
                             std::size_t length, std::uint32_t* flags, Source*, void* user);

struct DataProvider {
    Source source;
    ReadBody read;
};

using OnFrame = int (*)(nghttp2_session*, const Frame*, void* user);
using OnField = int (*)(nghttp2_session*, const Frame*, const std::uint8_t* name,
                        std::size_t name_size, const std::uint8_t* value, std::size_t value_size,
                        std::uint8_t flags, void* user);
using OnData = int (*)(nghttp2_session*, std::uint8_t flags, std::int32_t stream_id,
                       const std::uint8_t* data, std::size_t size, void* user);
using OnStreamClose = int (*)(nghttp2_session*, std::int32_t stream_id, std::uint32_t error_code,
                              void* user);
using SendData = int (*)(nghttp2_session*, Frame*, const std::uint8_t* frame_head,
                         std::size_t length, Source*, void* user);

namespace frame {
inline constexpr std::uint8_t data = 0;
inline constexpr std::uint8_t headers = 1;
inline constexpr std::uint8_t rst_stream = 3;
inline constexpr std::uint8_t continuation = 9;
inline constexpr std::uint8_t end_stream = 0x01; ///< a flag
} // namespace frame

namespace setting {
inline constexpr std::int32_t max_concurrent_streams = 3;
inline constexpr std::int32_t initial_window_size = 4;
inline constexpr std::int32_t max_header_list_size = 6;
inline constexpr std::int32_t enable_connect_protocol = 8;
} // namespace setting

inline constexpr std::uint32_t data_eof = 0x01;
inline constexpr std::uint32_t data_no_copy = 0x04;

inline constexpr int deferred = -508;
inline constexpr int temporal_callback_failure = -521;
inline constexpr int no_memory = -901;
inline constexpr int callback_failure = -902;

/// The functions that are used, by their names behind "nghttp2_".
struct Library {
    int (*session_callbacks_new)(nghttp2_session_callbacks**);
    void (*session_callbacks_del)(nghttp2_session_callbacks*);
    void (*session_callbacks_set_on_begin_headers_callback)(nghttp2_session_callbacks*, OnFrame);
    void (*session_callbacks_set_on_header_callback)(nghttp2_session_callbacks*, OnField);
    void (*session_callbacks_set_on_frame_recv_callback)(nghttp2_session_callbacks*, OnFrame);
    void (*session_callbacks_set_on_frame_send_callback)(nghttp2_session_callbacks*, OnFrame);
    void (*session_callbacks_set_on_data_chunk_recv_callback)(nghttp2_session_callbacks*, OnData);
    void (*session_callbacks_set_on_stream_close_callback)(nghttp2_session_callbacks*,
                                                           OnStreamClose);
    void (*session_callbacks_set_send_data_callback)(nghttp2_session_callbacks*, SendData);
    int (*option_new)(nghttp2_option**);
    void (*option_del)(nghttp2_option*);
    void (*option_set_no_auto_window_update)(nghttp2_option*, int);
    void (*option_set_max_outbound_ack)(nghttp2_option*, std::size_t);
    void (*option_set_max_deflate_dynamic_table_size)(nghttp2_option*, std::size_t);
    int (*session_server_new2)(nghttp2_session**, const nghttp2_session_callbacks*, void* user,
                               const nghttp2_option*);
    void (*session_del)(nghttp2_session*);
    ssize_t (*session_mem_recv)(nghttp2_session*, const std::uint8_t*, std::size_t);
    ssize_t (*session_mem_send)(nghttp2_session*, const std::uint8_t**);
    int (*session_want_read)(nghttp2_session*);
    int (*session_want_write)(nghttp2_session*);
    int (*session_set_local_window_size)(nghttp2_session*, std::uint8_t flags,
                                         std::int32_t stream_id, std::int32_t size);
    int (*session_consume_connection)(nghttp2_session*, std::size_t);
    int (*session_consume_stream)(nghttp2_session*, std::int32_t stream_id, std::size_t);
    int (*session_resume_data)(nghttp2_session*, std::int32_t stream_id);
    int (*session_terminate_session)(nghttp2_session*, std::uint32_t error_code);
    int (*session_set_stream_user_data)(nghttp2_session*, std::int32_t stream_id, void*);
    void* (*session_get_stream_user_data)(nghttp2_session*, std::int32_t stream_id);
    int (*session_get_stream_remote_close)(nghttp2_session*, std::int32_t stream_id);
    std::int32_t (*session_get_last_proc_stream_id)(nghttp2_session*);
    int (*submit_settings)(nghttp2_session*, std::uint8_t flags, const Setting*, std::size_t);
    int (*submit_headers)(nghttp2_session*, std::uint8_t flags, std::int32_t stream_id,
                          const void* priority, const Field*, std::size_t, void* stream_user);
    int (*submit_response)(nghttp2_session*, std::int32_t stream_id, const Field*, std::size_t,
                           const DataProvider*);
    int (*submit_rst_stream)(nghttp2_session*, std::uint8_t flags, std::int32_t stream_id,
                             std::uint32_t error_code);
    int (*submit_goaway)(nghttp2_session*, std::uint8_t flags, std::int32_t last_stream_id,
                         std::uint32_t error_code, const std::uint8_t* data, std::size_t);

    // Newer ones, or null.
    void (*option_set_stream_reset_rate_limit)(nghttp2_option*, std::uint64_t burst,
                                               std::uint64_t rate);
    void (*option_set_max_continuations)(nghttp2_option*, std::size_t);
    void (*option_set_glitch_rate_limit)(nghttp2_option*, std::uint64_t burst, std::uint64_t rate);
};

/// The library, loaded at the first call; null if it is not there. Thread safe.
const Library* library() noexcept;

} // namespace penstock::codec::http2::nghttp2
