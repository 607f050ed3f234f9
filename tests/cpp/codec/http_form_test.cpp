#include <penstock/codec/http/form.hpp>

#include <cstddef>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "fuzz/form_events.hpp"

namespace {

using namespace penstock::codec::http;
using penstock::testing::multipart_events;
using penstock::testing::urlencoded_events;

std::string events(std::string_view wire, const FormLimits& limits = {},
                   std::string_view boundary = "b") {
    return multipart_events(wire, boundary, limits, wire.size() + 1);
}

std::string field(std::string_view name, std::string_view value) {
    return "--b\r\nContent-Disposition: form-data; name=\"" + std::string(name) + "\"\r\n\r\n" +
           std::string(value) + "\r\n";
}

/// The events of a form whose only part has this head, without its last line end.
std::string with_head(std::string_view head) {
    return events("--b\r\n" + std::string(head) + "\r\n\r\nx\r\n--b--\r\n");
}

std::string disposed(std::string_view disposition) {
    return with_head("Content-Disposition: " + std::string(disposition));
}

std::string failed(FormError error) {
    return "[failed: " + std::string(describe(error)) + "]";
}

const std::string close = "--b--\r\n";
const std::string one = "[part a text/plain]x[end]";

TEST(Multipart, PartsComeInTheirOrder) {
    EXPECT_EQ(events(field("z", "1") + field("a", "") + field("z", "2") + close),
              "[part z text/plain]1[end][part a text/plain][end][part z text/plain]2[end]"
              "[complete]");
}

TEST(Multipart, AFileHasItsNameAndType) {
    EXPECT_EQ(with_head("content-type: image/png; q=1\r\nX-Other: 1\r\n"
                        "CONTENT-DISPOSITION: Form-Data; FileName=a.png; Name=up"),
              "[part up file a.png image/png; q=1]x[end][complete]");
}

TEST(Multipart, LineEndsAndDelimiterPrefixesAreContent) {
    const std::string content = "\r\r\n\r\n-\r\n--\r\n-\n--b\r\r\n--a\r\n";
    EXPECT_EQ(events(field("a", content) + close),
              "[part a text/plain]" + content + "[end][complete]");
    const std::string hyphens = "\r\n--" + std::string("\r\n-");
    EXPECT_EQ(events("-----\r\n", {}, "---"),
              "[failed: " + std::string(describe(FormError::truncated)) + "]");
    EXPECT_EQ(events(field("a", hyphens) + close),
              "[part a text/plain]" + hyphens + "[end][complete]");
}

TEST(Multipart, PreambleEpilogueAndPaddingAreSkipped) {
    EXPECT_EQ(events("for old readers\r\n--b \t\r\nContent-Disposition: form-data; name=a\r\n\r\nx"
                     "\r\n--b-- \r\nand more\r\n--b\r\n"),
              one + "[complete]");
    EXPECT_EQ(events("\r\n" + field("a", "x") + "--b--"), one + "[complete]");
}

TEST(Multipart, AFormWithoutPartsIsComplete) {
    EXPECT_EQ(events(close), "[complete]");
    EXPECT_EQ(events("--b--"), "[complete]");
}

TEST(Multipart, ThePartThatEndsAtItsEmptyLineIsEmpty) {
    EXPECT_EQ(events("--b\r\nContent-Disposition: form-data; name=a\r\n\r\n--b--"),
              "[part a text/plain][end][complete]");
}

TEST(Multipart, WhatEndsEarlyIsTruncated) {
    const std::string whole = field("a", "x") + "--b--";
    for (std::size_t size = 0; size < whole.size(); ++size) {
        const std::string said = events(whole.substr(0, size));
        EXPECT_TRUE(said.ends_with(failed(FormError::truncated))) << size << ": " << said;
    }
    EXPECT_EQ(events(whole), one + "[complete]");
}

TEST(Multipart, ALineThatOnlyBeginsWithTheDelimiterIsRefused) {
    EXPECT_EQ(events(field("a", "\r\n--bc") + close),
              "[part a text/plain][end]" + failed(FormError::invalid_delimiter));
    for (const char* tail : {"-x", "--x", " x", "\rx", "--\rx", "\n"}) {
        EXPECT_EQ(events("--b" + std::string(tail)), failed(FormError::invalid_delimiter)) << tail;
    }
}

TEST(Multipart, MalformedHeadsAreRefused) {
    for (const char* head : {"no colon", " Folded: 1", "A b: 1", ": 1", "A: \x01", "A: 1\nB: 2",
                             "Content-Disposition: form-data; name=a\r\n folded",
                             "Content-Type: a/b\r\nContent-Type: a/b"}) {
        EXPECT_EQ(with_head(head), failed(FormError::invalid_part_head)) << head;
    }
}

TEST(Multipart, APartNeedsOneDispositionWithAName) {
    for (const char* disposition :
         {"form-data", "attachment; name=a", "form-data; filename=a", "form-data; name",
          "form-data; name=\"a", "form-data; name=a; name=b", "form-data; name=a b",
          "form-data; name=a; filename=1; filename=2", "form-data name=a", "form-data; xname=a",
          "form-data; name=a\r\nContent-Disposition: form-data; name=a"}) {
        EXPECT_EQ(disposed(disposition), failed(FormError::invalid_disposition)) << disposition;
    }
    EXPECT_EQ(with_head("Content-Type: text/plain"), failed(FormError::invalid_disposition));
    EXPECT_EQ(events("--b\r\n\r\nx\r\n--b--"), failed(FormError::invalid_disposition));
}

TEST(Multipart, NamesAreReadAsBrowsersWriteThem) {
    EXPECT_EQ(disposed("form-data;name=\"a\""), one + "[complete]");
    EXPECT_EQ(disposed("form-data; name=\"\xC3\xA4; filename=x\""),
              "[part \xC3\xA4; filename=x text/plain]x[end][complete]");
    EXPECT_EQ(disposed("form-data; name=\"a%22%0D%0a%25%7\""),
              "[part a\"\r\n%25%7 text/plain]x[end][complete]");
    EXPECT_EQ(disposed(R"(form-data; name=a; filename="C:\dir\\\"f")"),
              "[part a file C:\\dir\\\"f text/plain]x[end][complete]");
}

TEST(Multipart, AnExtendedFileNameCountsOnlyAlone) {
    EXPECT_EQ(disposed("form-data; name=a; filename*=UTF-8'en'%e2%82%ac%20x"),
              "[part a file \xE2\x82\xAC x text/plain]x[end][complete]");
    EXPECT_EQ(disposed("form-data; name=a; filename*=UTF-8''b; filename=c"),
              "[part a file c text/plain]x[end][complete]");
    for (const char* value : {"b", "UTF-8'b", "ISO-8859-1''b", "UTF-8''%", "UTF-8''%00"}) {
        EXPECT_EQ(disposed("form-data; name=a; filename*=" + std::string(value)),
                  failed(FormError::invalid_disposition))
            << value;
    }
}

TEST(Multipart, AnEncodingThatChangesTheContentIsRefused) {
    const std::string named = "Content-Disposition: form-data; name=a\r\n";
    EXPECT_EQ(with_head(named + "Content-Transfer-Encoding: Binary"), one + "[complete]");
    EXPECT_EQ(with_head(named + "Content-Transfer-Encoding: base64"),
              failed(FormError::unsupported_encoding));
}

TEST(Multipart, LimitsHoldToTheByte) {
    const std::string form = field("a", "xyz") + close;
    const std::size_t head =
        std::string_view("Content-Disposition: form-data; name=\"a\"\r\n\r\n").size();
    const std::string all = "[part a text/plain]xyz[end]";
    EXPECT_EQ(events(form, {.parts = 1,
                            .part_head = head,
                            .part_fields = 1,
                            .name = 1,
                            .value = 3,
                            .total = form.size()}),
              all + "[complete]");
    EXPECT_EQ(events(form, {.parts = 0}), failed(FormError::too_many_parts));
    EXPECT_EQ(events(form, {.part_head = head - 1}), failed(FormError::part_head_too_large));
    EXPECT_EQ(events(form, {.part_fields = 0}), failed(FormError::too_many_part_fields));
    EXPECT_EQ(events(form, {.name = 0}), failed(FormError::name_too_long));
    EXPECT_EQ(events(form, {.value = 2}),
              "[part a text/plain]xy" + failed(FormError::value_too_large));
    EXPECT_EQ(events(form, {.total = form.size() - 1}), all + failed(FormError::form_too_large));
    EXPECT_EQ(events("abc\r\n" + form, {.surroundings = 2}),
              failed(FormError::surroundings_too_large));
    EXPECT_EQ(events(form + "abc", {.surroundings = 2}),
              all + failed(FormError::surroundings_too_large));
    EXPECT_EQ(events("--b   \r\n", {.surroundings = 2}), failed(FormError::surroundings_too_large));
}

TEST(Multipart, AFileHasALimitOfItsOwn) {
    const std::string form = "--b\r\nContent-Disposition: form-data; name=a; filename=f\r\n\r\n"
                             "xyz\r\n--b--";
    EXPECT_EQ(events(form, {.value = 1}), "[part a file f text/plain]xyz[end][complete]");
    EXPECT_EQ(events(form, {.file = 1}),
              "[part a file f text/plain]x" + failed(FormError::file_too_large));
}

TEST(Multipart, EachSplitGivesTheSameEvents) {
    const std::string form = "pre\r\n-" + std::string("\r\n") + field("a", "\r\n--\r\r\n--") +
                             field("n", "") + field("c", "\r\n\r\n-") + "--b-- \r\nepilogue";
    const std::string whole = events(form);
    ASSERT_TRUE(whole.ends_with("[complete]"));
    for (std::size_t step = 1; step <= form.size(); ++step) {
        EXPECT_EQ(multipart_events(form, "b", {}, step), whole) << step;
    }
}

TEST(Multipart, RandomFormsReadTheSameInAnySplit) {
    // Pieces of the grammar in a random order: most are near a delimiter.
    const std::vector<std::string> pieces{"--b",
                                          "\r\n",
                                          "--",
                                          "\r",
                                          "\n",
                                          "x",
                                          " ",
                                          "\r\n--b",
                                          "--b--",
                                          "-",
                                          "\r\n\r\n",
                                          field("a", "1"),
                                          "Content-Disposition: form-data; name=q; filename=w"};
    std::mt19937 random(11);
    const FormLimits limits{
        .parts = 3, .part_head = 128, .value = 20, .file = 30, .total = 300, .surroundings = 12};
    for (int round = 0; round < 3000; ++round) {
        std::string form = round % 2 == 0 ? field("begin", "y") : std::string();
        for (unsigned count = random() % 14; count > 0; --count) {
            form += pieces[random() % pieces.size()];
        }
        const std::string whole = events(form, limits);
        for (const std::size_t step : {std::size_t{1}, std::size_t{2}, 1 + random() % 9}) {
            ASSERT_EQ(multipart_events(form, "b", limits, step), whole) << form;
        }
    }
}

TEST(Multipart, TheBoundaryIsReadFromTheContentType) {
    EXPECT_EQ(multipart_boundary("multipart/form-data; boundary=x"), "x");
    EXPECT_EQ(
        multipart_boundary("Multipart/Form-Data ; charset=utf-8;Boundary=\"a b'()+_,-./:=?\""),
        "a b'()+_,-./:=?");
    EXPECT_EQ(multipart_boundary("multipart/form-data; xboundary=y; boundary=z"), "z");
    EXPECT_EQ(multipart_boundary("multipart/form-data; boundary=" + std::string(70, 'a')),
              std::string(70, 'a'));
    for (const std::string& type :
         {std::string("multipart/form-data"), std::string("multipart/mixed; boundary=x"),
          std::string("multipart/form-data; boundary="),
          std::string("multipart/form-data; boundary=\"\""),
          std::string("multipart/form-data; boundary=\"a \""),
          std::string("multipart/form-data; boundary=\"a"),
          std::string("multipart/form-data; boundary=\"a\r\nb\""),
          std::string("multipart/form-data; boundary=a; boundary=b"),
          std::string("multipart/form-data; boundary=a$"),
          "multipart/form-data; boundary=" + std::string(71, 'a')}) {
        EXPECT_EQ(multipart_boundary(type), std::nullopt) << type;
    }
}

std::string pairs(std::string_view wire, const FormLimits& limits = {}) {
    return urlencoded_events(wire, limits, wire.size() + 1);
}

TEST(Urlencoded, PairsComeInTheirOrder) {
    EXPECT_EQ(pairs("b=1&a=2&b=3"), "[b=1][a=2][b=3]");
    EXPECT_EQ(pairs("&&a&=v&b==&"), "[a=][=v][b==]");
    EXPECT_EQ(pairs(""), "");
    EXPECT_EQ(pairs("a;b=1"), "[a;b=1]");
}

TEST(Urlencoded, TextIsDecodedAsBrowsersDo) {
    EXPECT_EQ(pairs("a+b=c%2Bd&%26%3D=%zz%4"), "[a b=c+d][&==%zz%4]");
    EXPECT_EQ(pairs("a=%e2%82%AC"), "[a=\xE2\x82\xAC]");
}

TEST(Urlencoded, WhatIsNotUtf8IsReplaced) {
    const std::string lost = "\xEF\xBF\xBD";
    EXPECT_EQ(decode_form_text("x%FFy"), "x" + lost + "y");
    EXPECT_EQ(decode_form_text("%E2%82"), lost);
    EXPECT_EQ(decode_form_text("%E2%82x"), lost + "x");
    EXPECT_EQ(decode_form_text("%C0%80"), lost + lost);
    EXPECT_EQ(decode_form_text("%ED%A0%80"), lost + lost + lost);
    EXPECT_EQ(decode_form_text("%F0%9F%98%80%F5"), "\xF0\x9F\x98\x80" + lost);
}

TEST(Urlencoded, LimitsHoldToTheByte) {
    const std::string form = "ab=xyz&c=";
    EXPECT_EQ(pairs(form, {.parts = 2, .name = 2, .value = 3, .total = form.size()}),
              "[ab=xyz][c=]");
    EXPECT_EQ(pairs(form, {.parts = 1}), "[ab=xyz]" + failed(FormError::too_many_parts));
    EXPECT_EQ(pairs(form, {.name = 1}), failed(FormError::name_too_long));
    EXPECT_EQ(pairs(form, {.value = 2}), failed(FormError::value_too_large));
    EXPECT_EQ(pairs(form, {.total = 8}), "[ab=xyz]" + failed(FormError::form_too_large));
}

TEST(Urlencoded, EachSplitGivesTheSamePairs) {
    const std::string form = "a=%e2%82%AC+1&&b&=c&d=%4&e=";
    for (std::size_t step = 1; step <= form.size(); ++step) {
        EXPECT_EQ(urlencoded_events(form, {}, step), pairs(form)) << step;
        const FormLimits limits{.parts = 3, .total = step};
        EXPECT_EQ(urlencoded_events(form, limits, 1), pairs(form, limits)) << step;
    }
}

TEST(FormNames, TheBaseNameHasNoFolder) {
    EXPECT_EQ(base_name("a/b\\c.txt"), "c.txt");
    EXPECT_EQ(base_name("/etc/passwd"), "passwd");
    EXPECT_EQ(base_name("C:\\x\\..\\."), "");
    EXPECT_EQ(base_name(".."), "");
    EXPECT_EQ(base_name(std::string_view("a\0b\r\n.txt", 9)), "ab.txt");
    EXPECT_EQ(base_name("a/"), "");
}

TEST(FormErrors, EachHasATextAndAStatus) {
    EXPECT_EQ(status_for(FormError::truncated), 400);
    EXPECT_EQ(status_for(FormError::form_too_large), 413);
    EXPECT_EQ(status_for(FormError::too_many_parts), 413);
    EXPECT_EQ(status_for(FormError::unsupported_type), 415);
}

} // namespace
