#pragma once

#include <string_view>

#include <penstock/codec/http/form.hpp>
#include <penstock/codec/http/multipart_decoder.hpp>

namespace penstock::codec::http {

/// Reads the fields of a part: lines that end with CRLF, without the empty one. Other fields than
/// Content-Disposition, Content-Type and Content-Transfer-Encoding are ignored (RFC 7578, 4.8).
/// Throws `std::bad_alloc`.
[[nodiscard]] FormError parse_part_head(std::string_view head, const FormLimits& limits,
                                        FormPart& part);

} // namespace penstock::codec::http
