#pragma once

#include <memory>

#include <curl/curl.h>

namespace penstock::http::detail {

/// Calls libcurl's function that frees an object.
template <auto Free> struct FreedByCurl {
    template <typename T> void operator()(T* object) const noexcept { (void)Free(object); }
};

using EasyHandle = std::unique_ptr<CURL, FreedByCurl<&curl_easy_cleanup>>;
using MultiHandle = std::unique_ptr<CURLM, FreedByCurl<&curl_multi_cleanup>>;
using ShareHandle = std::unique_ptr<CURLSH, FreedByCurl<&curl_share_cleanup>>;
using UrlHandle = std::unique_ptr<CURLU, FreedByCurl<&curl_url_cleanup>>;
using CurlText = std::unique_ptr<char, FreedByCurl<&curl_free>>;
using FieldList = std::unique_ptr<curl_slist, FreedByCurl<&curl_slist_free_all>>;

} // namespace penstock::http::detail
