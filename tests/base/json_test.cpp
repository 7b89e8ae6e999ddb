// SPDX-License-Identifier: Apache-2.0
// Strict JSON: every malformed text has its sentence and its place.
#include "base/json.h"

#include <motley/error.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>

#include "base/utf8.h"

using namespace motley;

namespace {

// "LINE:COL /path: text" of every complaint.
std::vector<std::string> complaints_of(const std::string& text) {
  Complaints complaints;
  const auto json = read_json("f.json", text, complaints);
  CHECK((json.has_value() || !complaints.empty()));
  std::vector<std::string> out;
  for (const auto& one : complaints.list) {
    Complaints single;
    single.list = {one};
    std::string line = single.print();
    line = line.substr(0, line.find('\n'));
    out.push_back(line.substr(std::string("f.json:").size()));
  }
  return out;
}

std::string complaint_of(const std::string& text) {
  const auto all = complaints_of(text);
  return all.size() == 1 ? all[0] : std::to_string(all.size()) + " complaints";
}

Json parse(const std::string& text) {
  Complaints complaints;
  auto json = read_json("f.json", text, complaints);
  complaints.raise();
  return std::move(*json);
}

std::size_t byte_of(const Json& json, const std::string& pointer) {
  const Json* at = json.at(pointer);
  REQUIRE(at != nullptr);
  return at->where.byte;
}

}  // namespace

TEST_CASE("malformed texts are refused with their place and what would be right") {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"", "1:1: error: empty; expected a JSON object"},
      {" \n// nothing\n", "1:1: error: empty; expected a JSON object"},
      {"{", "1:1: error: the text ends before the closing }"},
      {"[1,", "1:3: error: the text ends before the closing ]"},
      {"{\"a\"", "1:4: error: /a: the text ends before the value"},
      {"{\"a\": nul}", "1:7: error: /a: nul is not valid JSON; did you mean \"null\"?"},
      {"{\"a\": True}", "1:7: error: /a: True is not valid JSON; did you mean \"true\"?"},
      {"{\"a\": sgd}", "1:7: error: /a: sgd is not valid JSON; strings need double quotes"},
      {"{\"a\": NaN}", "1:7: error: /a: NaN is not a valid JSON number; numbers are finite"},
      {"{\"a\": -Infinity}", "1:7: error: /a: -Infinity is not a valid JSON number; numbers are finite"},
      {"{\"a\": 1e999}", "1:7: error: /a: 1e999 is too large for a number (at most 1.7e308)"},
      {"{\"a\": 1, \"b\": [2, -1e400]}", "1:19: error: /b: -1e400 is too large for a number (at most 1.7e308)"},
      {"{\"a\": 1 \"b\": 2}", "1:9: error: a comma is missing in front of this \"b\""},
      {"{\"a\" 1}", "1:6: error: /a: a colon is missing in front of this 1"},
      {"[1 2]", "1:4: error: a comma is missing in front of this 2"},
      {"[1, 2,]", "1:7: error: extra comma before this ]"},
      {"{\"a\": 1,}", "1:9: error: extra comma before this }"},
      {"{\"a\": 1,,\"b\": 2}", "1:9: error: expected a key in double quotes, found ,"},
      {"{\"a\": 1]", "1:8: error: expected } or a comma, found ]"},
      {"[1}", "1:3: error: expected ] or a comma, found }"},
      {"{\"a\":}", "1:6: error: /a: expected a value, found }"},
      {"{a: 1}", "1:2: error: expected a key in double quotes, found a"},
      {"{# 1\n\"a\": 1}", "1:2: error: # begins no comment here; write // or /* */"},
      {"{\"a\": # 1\n1}", "1:7: error: /a: # begins no comment here; write // or /* */"},
      {"{\"a\":\xC2\xA0 1}", "1:6: error: /a: the invisible character U+00A0; write a space, or nothing"},
      {"{\"a\": 1\xE2\x80\x8B}", "1:7: error: the invisible character U+200B; write a space, or nothing"},
      {"{1: 1}", "1:2: error: expected a key in double quotes, found 1"},
      {"{'a': 1}", "1:2: error: expected a key in double quotes, found 'a'"},
      {"{\"a\": 'b'}", "1:7: error: /a: strings need double quotes: \"...\""},
      {"{\"a\": 01}",
       "1:7: error: 01 is not a valid JSON number (as 12, -0.5 or 2e-3: no + in front, no leading zeros, digits on both sides of "
       "the "
       "point)"},
      {"[true, 1-2]",
       "1:8: error: 1-2 is not a valid JSON number (as 12, -0.5 or 2e-3: no + in front, no leading zeros, digits on both sides of "
       "the "
       "point)"},
      {"[trueish]", "1:2: error: trueish is not valid JSON; strings need double quotes"},
      {"{\"a\": .5}",
       "1:7: error: /a: .5 is not a valid JSON number (as 12, -0.5 or 2e-3: no + in front, no leading zeros, digits on both sides "
       "of the "
       "point)"},
      {"{\"a\": +1}",
       "1:7: error: /a: +1 is not a valid JSON number (as 12, -0.5 or 2e-3: no + in front, no leading zeros, digits on both sides "
       "of the "
       "point)"},
      {"{\"a\": \"b}", "1:7: error: /a: this string has no closing quote"},
      {"{\"a\": \"b\n\"}", "1:7: error: /a: this string has no closing quote on its line"},
      {"{\"a\": \"\t\"}", "1:8: error: /a: a tab inside a string is written \\t"},
      {"{\"a\": \"C:\\dir\"}",
       "1:10: error: /a: \\ begins one of \\\" \\\\ \\/ \\b \\f \\n \\r \\t \\uXXXX; a backslash itself is written \\\\"},
      {"{\"a\": \"\\ud800\"}",
       "1:8: error: /a: \\u needs four hexadecimal digits of a character (or both halves of a surrogate pair)"},
      {"{\"a\": \"\\u12\"}",
       "1:8: error: /a: \\u needs four hexadecimal digits of a character (or both halves of a surrogate pair)"},
      {"{\"a\": 1} /* begun", "1:10: error: this comment has no end; */ is missing"},
      {"{\"a\": /* begun", "1:7: error: /a: this comment has no end; */ is missing"},
      {"/*", "1:1: error: this comment has no end; */ is missing"},
      {"{} {}", "1:4: error: expected one JSON value; more follows"},
      {"{\"a\": 1}\n}", "2:1: error: expected one JSON value; more follows"},
      {std::string("\x7f"
                   "ELF\x02\0\0",
                   7),
       "1:5: error: the byte 0x02 is not valid in a text file"},
      {"{\"a\": \"\xff\"}", "1:8: error: the byte 0xFF is not UTF-8; save the file as UTF-8"},
      {"{\"gr\xc3\xb6\xc3\x9f"
       "e\": \"\xc0\xaf\"}",
       "1:12: error: the byte 0xC0 is not UTF-8; save the file as UTF-8"},
      {"\xff\xfe{\0}\0", "1:1: error: UTF-16; save the file as UTF-8"},
      {"{\"a\": 1, \"b\": 2, \"a\": 3}", "1:18: error: /a: this key is written twice; the first is at line 1, column 2"},
      {"[[1, {\"x\": 1,\n  \"x\": 2}]]", "2:3: error: /0/1/x: this key is written twice; the first is at line 1, column 7"},
      {std::string(200000, '['), "1:65: error: " +
                                     [] {
                                       std::string p;
                                       for (int i = 0; i < 64; i++) p += "/0";
                                       return p;
                                     }()
                                         .substr(0, 126) +
                                     ": nested deeper than 64"}};
  for (const auto& [text, expected] : cases) {
    INFO(text.substr(0, 60));
    std::string got = complaint_of(text);
    CHECK(got == expected);
  }
}

TEST_CASE("no text makes the reader run away: every prefix of a file with everything in it is refused or read") {
  const std::string all =
      "\xEF\xBB\xBF// begin\n{ \"a\": [1, -2.5e-3, true, null], /* in \"between\" */ \"b\\u00e9\\\"\": { \"gr\xc3\xb6\xc3\x9f"
      "e\": \"{[,:]}\\\\\" } } // end";
  for (std::size_t n = 0; n <= all.size(); n++) {
    Complaints complaints;
    const auto json = read_json("f.json", all.substr(0, n), complaints);
    CHECK((json.has_value() == complaints.empty()));
    if (!complaints.empty()) CHECK(!complaints.print().empty());
  }
  // and every single byte replaced by something odd
  for (std::size_t i = 0; i < all.size(); i++)
    for (const char odd : {'"', '\\', '{', ']', '/', '*', ',', '\0', '\xc3', '9'}) {
      std::string text = all;
      text[i] = odd;
      Complaints complaints;
      const auto json = read_json("f.json", text, complaints);
      CHECK((json.has_value() || !complaints.empty()));
      for (const auto& one : complaints.list) CHECK(one.where.byte <= text.size());
      if (!complaints.empty()) CHECK(!complaints.print().empty());
    }
}

TEST_CASE("positions of keys and values") {
  const std::string text =
      "\xEF\xBB\xBF{ // comment with \"quotes\" and {\n  \"a\" : [ 1, { \"b\": -2.5 } ], /* [ */ \"s\": \"x\\\"}{\",\n  \"last\": "
      "null }";
  const Json json = parse(text);
  CHECK(text.substr(byte_of(json, "/a"), 3) == "[ 1");
  CHECK(text.substr(byte_of(json, "/a/0"), 2) == "1,");
  CHECK(text.substr(byte_of(json, "/a/1/b"), 4) == "-2.5");
  CHECK(text.substr(byte_of(json, "/s"), 3) == "\"x\\");
  CHECK(text.substr(byte_of(json, "/last"), 4) == "null");
  const auto& members = std::get<Json::Object>(json.value);
  CHECK(text.substr(members[2].where.byte, 6) == "\"last\"");
  CHECK(json.at("/a/2") == nullptr);
  CHECK(json.at("/a/x") == nullptr);
  CHECK(json.at("nothing") == nullptr);
  CHECK(json.at("") == &json);
}

TEST_CASE("pointers escape what is in keys") {
  const Json json = parse("{\"a/b\": {\"~\": 7}}");
  REQUIRE(json.at("/a~1b/~0") != nullptr);
  CHECK(std::get<std::int64_t>(json.at("/a~1b/~0")->value) == 7);
}

TEST_CASE("printed: file, line, column in characters, the line, a caret") {
  Complaints complaints;
  const Json json = [&] {
    return *read_json(
        "gr\xc3\xb6\xc3\x9f"
        "e.json",
        "{\n  \"stra\xc3\x9f"
        "e\": 1, \"b\": 2\n}",
        complaints);
  }();
  complaints.add(json.at("/b")->where, "/b", "wrong");
  CHECK(complaints.print() ==
        "gr\xc3\xb6\xc3\x9f"
        "e.json:2:21: error: /b: wrong\n    \"stra\xc3\x9f"
        "e\": 1, \"b\": 2\n" +
            std::string(22, ' ') + "^\n");
}

TEST_CASE("printed: a window of a long line, control characters replaced, ten at most") {
  Complaints complaints;
  std::string list = "[0";
  for (int i = 1; i < 40000; i++) list += "," + std::to_string(i % 10);
  const Json json = *read_json("f.json", list + "]", complaints);
  complaints.add(json.at("/20000")->where, "/20000", "wrong");
  const std::string printed = complaints.print();
  const auto first = printed.find('\n') + 1, second = printed.find('\n', first) + 1;
  CHECK(printed.substr(first, second - first).size() == 2 + 3 + 100 + 3 + 1);
  CHECK(printed[first + (printed.find('^') - second)] == '0');
  Complaints odd;
  const Json tree = *read_json("a\x1b[31m.json", "{\"k\": \"\x7f\xc2\x9b\"}", odd);
  odd.add(tree.where, "/\n", "text with \x1b and \xff");
  CHECK(odd.print() == "a [31m.json:1:1: error: / : text with   and ?\n  {\"k\": \"  \"}\n  ^\n");
  Complaints many;
  const Json numbers = parse("[1,2,3,4,5,6,7,8,9,10,11,12,13]");
  for (int i = 12; i >= 0; i--) many.add(numbers.at("/" + std::to_string(i))->where, "/" + std::to_string(i), "wrong");
  const std::string ten = many.print();
  CHECK(std::count(ten.begin(), ten.end(), '^') == 10);
  CHECK(ten.find("f.json:1:2: error: /0: wrong\n") == 0);
  CHECK(ten.substr(ten.size() - 11) == "and 3 more\n");
}

TEST_CASE("numbers round-trip and integers stay integers") {
  for (const double v : {0.1, 1.0, -0.0, 1e300, 5e-324, 2.0 / 3.0, 1e21, 123456789.0, std::numeric_limits<double>::max()}) {
    const Json back = parse(to_text(Json(v)));
    REQUIRE(std::holds_alternative<double>(back.value));
    CHECK(std::get<double>(back.value) == v);
    CHECK(std::signbit(std::get<double>(back.value)) == std::signbit(v));
  }
  for (const std::int64_t v : {std::int64_t{0}, std::int64_t{-1}, INT64_MAX, INT64_MIN}) {
    const Json back = parse(to_text(Json(v)));
    REQUIRE(std::holds_alternative<std::int64_t>(back.value));
    CHECK(std::get<std::int64_t>(back.value) == v);
  }
  CHECK(to_text(Json(std::nan(""))) == "null");
  CHECK(to_text(Json(std::numeric_limits<double>::infinity())) == "null");
  CHECK(std::holds_alternative<double>(parse("18446744073709551615").value));
}

TEST_CASE("texts round-trip; what is not UTF-8 is replaced") {
  const std::string odd =
      "a\"b\\c\nd\te\x01 gr\xc3\xb6\xc3\x9f"
      "e \xf0\x9f\x98\x80";
  CHECK(std::get<std::string>(parse(to_text(Json(odd))).value) == odd);
  CHECK(to_text(Json(std::string("\xff"))) == "\"\xEF\xBF\xBD\"");
  CHECK(std::get<std::string>(parse("\"\\ud83d\\ude00\\u00e9\"").value) == "\xf0\x9f\x98\x80\xc3\xa9");
}

TEST_CASE("written: one line, or indented with lists of scalars on one line") {
  Json json;
  json.set("name", "x").set("list", Json(Json::Array{1, 2, 3})).set("empty", Json(Json::Object{}));
  json.set("inner", Json(Json::Array{Json(Json::Array{1}), Json(Json::Array{2})}));
  CHECK(to_text(json) == R"({"name": "x", "list": [1, 2, 3], "empty": {}, "inner": [[1], [2]]})");
  CHECK(to_text(json, 2) ==
        "{\n  \"name\": \"x\",\n  \"list\": [1, 2, 3],\n  \"empty\": {},\n  \"inner\": [\n    [1],\n    [2]\n  ]\n}");
}

namespace {

struct Thing {
  std::int64_t count = 0;
  double rate = 0;
  bool on = false;
  std::string word{}, name{};
};

const Table<Thing>& thing_table() {
  static const Table<Thing> table{
      {"count", "how many", "integer", true, [](Reader& r, const Json& j, Thing& t) { r.integer(j, t.count, 1, 20000000000); }},
      {"learning_rate", "step size", "number", true, [](Reader& r, const Json& j, Thing& t) { r.number(j, t.rate, 0, 1e308); }},
      {"on", "", "boolean", false, [](Reader& r, const Json& j, Thing& t) { r.boolean(j, t.on); }},
      {"word", "", "text", false,
       [](Reader& r, const Json& j, Thing& t) {
         r.text(j, t.word, {"even", "profile"});
       }},
      {"name", "", "name", false, [](Reader& r, const Json& j, Thing& t) { r.name(j, t.name); }}};
  return table;
}

std::vector<std::string> read_thing(const std::string& text, Thing& thing) {
  Complaints complaints;
  const auto json = read_json("f.json", text, complaints);
  REQUIRE(json);
  Reader reader{complaints};
  reader.object(*json, thing_table(), thing);
  std::vector<std::string> out;
  for (const auto& one : complaints.list) out.push_back(one.path + ": " + one.text);
  return out;
}

}  // namespace

TEST_CASE("tables: wrong types, unknown and missing keys") {
  using List = std::vector<std::string>;
  Thing t;
  CHECK(read_thing(R"({"count": 20e9, "learning_rate": 1, "on": true, "word": "even", "name": "a-b_1"})", t) == List{});
  CHECK(t.count == 20000000000);
  CHECK(t.rate == 1.0);
  CHECK(read_thing(R"({"count": 3.5, "learning_rate": "fast"})", t) ==
        List{"/count: expected an integer of at least 1, found 3.5",
             "/learning_rate: expected a number of at least 0, found \"fast\""});
  CHECK(read_thing(R"({"count": true, "learning_rate": false})", t) ==
        List{"/count: expected an integer of at least 1, found true",
             "/learning_rate: expected a number of at least 0, found false"});
  // What is found has the digits that were written.
  CHECK(read_thing(R"({"count": 18446744073709551615, "learning_rate": -1.50})", t) ==
        List{"/count: expected an integer from 1 to 20000000000, found 18446744073709551615",
             "/learning_rate: expected a number of at least 0, found -1.50"});
  CHECK(read_thing(R"({"count": 1, "learnin_rate": 0.1})", t) ==
        List{"/learnin_rate: unknown key; did you mean \"learning_rate\"?"});
  CHECK(read_thing(R"({"count": 1, "zzz": 0.1})", t) ==
        List{"/zzz: unknown key (known: count, learning_rate, on, word, name)", ": \"learning_rate\" is missing (step size)"});
  CHECK(read_thing(R"({"count": 1, "learning_rate": 0, "on": 1, "word": "evem", "name": "1a"})", t) ==
        List{"/on: expected true or false, found 1", "/word: \"evem\" is not known here; did you mean \"even\"?",
             "/name: \"1a\" is not a valid name: letters, digits, _ and -, a letter or _ first"});
  CHECK(read_thing("[]", t) == List{": expected an object, found a list"});
  CHECK(read_thing(R"({"count": [], "learning_rate": {}})", t) ==
        List{"/count: expected an integer of at least 1, found a list",
             "/learning_rate: expected a number of at least 0, found an object"});
}

TEST_CASE("integers up to 2^63 - 1 are exact where they are written with all digits") {
  const auto said = [](const std::string& text, std::int64_t& out) {
    Complaints complaints;
    const auto json = read_json("f.json", text, complaints);
    REQUIRE(json);
    return Reader{complaints}.integer(*json, out, 0) ? "" : complaints.list.at(0).text;
  };
  std::int64_t n = 0;
  CHECK(said("9223372036854775807", n).empty());
  CHECK(n == INT64_MAX);
  const std::string range = "expected an integer from 0 to 9223372036854775807, found ";
  CHECK(said("9223372036854775808", n) == range + "9223372036854775808");
  CHECK(said("1e19", n) == range + "1e19");
  CHECK(said("1e18", n) == range + "1e18; above 2^53 it is written without a point or an exponent");
}

TEST_CASE("files: read whole, written beside and renamed") {
  const auto folder = std::filesystem::temp_directory_path() /
                      "motley gr\xc3\xb6\xc3\x9f"
                      "e json_test";
  std::filesystem::create_directories(folder);
  const std::string file = (folder / "a.json").string();
  write_file(file, "first");
  write_file(file, "second");
  CHECK(read_file(file) == "second");
  std::filesystem::create_symlink("a.json", folder / "link");
  write_file((folder / "link").string(), "third");
  CHECK(std::filesystem::is_symlink(folder / "link"));
  CHECK(read_file(file) == "third");
  CHECK(std::distance(std::filesystem::directory_iterator(folder), {}) == 2);
  write_file("/dev/null", "gone");
  CHECK(std::filesystem::is_character_file("/dev/null"));
  for (const auto& [path, says] : {std::pair{(folder / "none").string(), "no file "}, {folder.string(), " is a folder"}}) {
    try {
      read_file(path);
      FAIL("read " << path);
    } catch (const UserError& e) {
      CHECK(e.code() == Exit::missing);
      CHECK(std::string(e.what()).find(says) != std::string::npos);
    }
  }
  try {
    write_file((folder / "none" / "x").string(), "");
    FAIL("written");
  } catch (const UserError& e) {
    CHECK(e.code() == Exit::io);
  }
  std::filesystem::remove_all(folder);
}
