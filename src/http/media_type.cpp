#include "http/media_type.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include <penstock/codec/http/fields.hpp>

namespace penstock::http {

namespace {

using Entry = std::pair<std::string_view, std::string_view>;

constexpr std::array known{
    Entry{"html", "text/html; charset=utf-8"},
    Entry{"css", "text/css; charset=utf-8"},
    Entry{"js", "text/javascript; charset=utf-8"},
    Entry{"mjs", "text/javascript; charset=utf-8"},
    Entry{"json", "application/json"},
    Entry{"map", "application/json"},
    Entry{"txt", "text/plain; charset=utf-8"},
    Entry{"md", "text/markdown; charset=utf-8"},
    Entry{"csv", "text/csv; charset=utf-8"},
    Entry{"htm", "text/html; charset=utf-8"},
    Entry{"xml", "application/xml"},
    Entry{"svg", "image/svg+xml"},
    Entry{"png", "image/png"},
    Entry{"jpg", "image/jpeg"},
    Entry{"jpeg", "image/jpeg"},
    Entry{"gif", "image/gif"},
    Entry{"webp", "image/webp"},
    Entry{"avif", "image/avif"},
    Entry{"ico", "image/vnd.microsoft.icon"},
    Entry{"bmp", "image/bmp"},
    Entry{"woff", "font/woff"},
    Entry{"woff2", "font/woff2"},
    Entry{"ttf", "font/ttf"},
    Entry{"otf", "font/otf"},
    Entry{"wasm", "application/wasm"},
    Entry{"pdf", "application/pdf"},
    Entry{"zip", "application/zip"},
    Entry{"gz", "application/gzip"},
    Entry{"tar", "application/x-tar"},
    Entry{"mp3", "audio/mpeg"},
    Entry{"ogg", "audio/ogg"},
    Entry{"wav", "audio/wav"},
    Entry{"flac", "audio/flac"},
    Entry{"mp4", "video/mp4"},
    Entry{"webm", "video/webm"},
    Entry{"mpeg", "video/mpeg"},
    Entry{"parquet", "application/vnd.apache.parquet"},
    Entry{"arrow", "application/vnd.apache.arrow.file"},
    Entry{"sqlite", "application/vnd.sqlite3"},
};

} // namespace

std::string_view extension_of(std::string_view path) noexcept {
    const std::string_view name = path.substr(path.rfind('/') + 1);
    const std::size_t dot = name.rfind('.');
    return dot == std::string_view::npos || dot == 0 ? std::string_view() : name.substr(dot + 1);
}

std::string_view media_type_of_extension(std::string_view extension) noexcept {
    const auto* const found = std::ranges::find_if(known, [extension](const Entry& entry) {
        return codec::http::equal_ignoring_case(entry.first, extension);
    });
    return found == known.end() ? "application/octet-stream" : found->second;
}

} // namespace penstock::http
