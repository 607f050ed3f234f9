#pragma once

#include <string_view>

namespace penstock::http {

/// The extension of a file name, without the dot. Empty if there is none.
[[nodiscard]] std::string_view extension_of(std::string_view path) noexcept;

/// The media type registered for an extension in any case, "application/octet-stream" for an
/// unknown one. Text is UTF-8.
[[nodiscard]] std::string_view media_type_of_extension(std::string_view extension) noexcept;

} // namespace penstock::http
