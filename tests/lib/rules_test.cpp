// SPDX-License-Identifier: Apache-2.0
// Layout files, and whether rules fit a model and a mesh.
#include <motley/ops.h>

#include <catch2/catch.hpp>

#include "base/at.h"
#include "plan/check_rules.h"
#include "plan/effective_rules.h"
#include "plan/rules_json.h"
#include "tests/support/config_files.h"
#include "tests/support/named_mesh.h"

using namespace motley;

namespace {

// A network of the paper's shape on 2 x 3 devices d0..d5, or on one axis "all" of 3.
struct Net {
  Graph graph;
  Step step = make(graph);
  static Step make(Graph& g) {
    const Dim batch{"batch", 100}, rows{"rows", 28}, cols{"cols", 28};
    const Tensor image = g.input("image", {batch, {"channels", 1}, rows, cols});
    const Tensor label = g.input("label", {batch}, DType::i32);
    Tensor h = relu(conv2d(image, {.out = {"filters1", 60}, .window = 3, .padding = same, .name = "first"}), {"hot"});
    h = max_pool2d(h, {.window = 2, .name = "pool"});
    h = flatten(h, "flat", {"flattened"});
    h = dense(h, {.out = {{"hidden", 12}}, .name = "wide"});
    const Tensor logits = dense(h, {.out = {{"classes", 10}}, .name = "last"});
    return training(mean(softmax_cross_entropy(logits, label, {"classes", 10})), Sgd{});
  }
};

Lines complaints_of(const Mesh& mesh, const LayoutRules& rules) {
  static const Net net;
  Lines out;
  for (const RuleComplaint& c : check_rules(net.step.passes(), mesh, rules)) out.push_back(c.pointer + ": " + c.text);
  return out;
}

const Mesh kAll = named_mesh({{"all", 3}});
const Mesh kTwo = named_mesh({{"data", 2}, {"model", 3}});

Lines said_of(const std::string& text) {
  const Folder folder("motley-rules");
  const std::string file = folder.write("l.json", text);
  return said(folder, [&] { LayoutRules::load(file); });
}

}  // namespace

TEST_CASE("a layout file is read whole") {
  const Folder folder("motley-rules");
  const LayoutRules rules = LayoutRules::load(folder.write("l.json", R"({ "version": 1,
  "split": {
    "filters1": "all",
    "filters3": { "axis": "all", "parts": [168, 60, 12] },
    "gone":     null,
    "hidden":   { "axis": "all", "parts": "even" },
    "classes":  { "axis": ["data", "model"], "parts": "proportional" },
    "cols":     { "axis": "model", "parts": [[40, 24], [30, 34]], "per": "data" } },
  "tensors": { "dense_5.weight": { "filters3": null }, "conv2d_2": { "batch": { "axis": "all", "parts": { "shares": [70, 25, 5.5] } } } },
  "place":   { "dense_6": "big gpu", "conv2d_1": ["big gpu", "fast cpu"] } })"));
  const std::vector<Rule> split{{"filters1", "all"},
                                {"filters3", "all", Sizes{{168, 60, 12}}},
                                {"hidden", "all", CutBy::even},
                                {"classes", {"data", "model"}, CutBy::proportional},
                                {"cols", "model", Jagged{{{40, 24}, {30, 34}}, "data"}}};
  CHECK((rules.split == split));
  CHECK((rules.tensors.at("dense_5.weight") == std::vector<Rule>{{"filters3", Axes{}}}));
  CHECK((rules.tensors.at("conv2d_2") == std::vector<Rule>{{"batch", "all", Shares{{70, 25, 5.5}}}}));
  CHECK(rules.places.at("dense_6") == std::vector<std::string>{"big gpu"});
  CHECK(rules.places.at("conv2d_1") == std::vector<std::string>{"big gpu", "fast cpu"});
  const LayoutRules again = LayoutRules::load(folder.write("again.json", to_text(to_json(rules), 2)));
  CHECK((again.split == rules.split));
  CHECK((again.tensors == rules.tensors));
  CHECK((again.places == rules.places));
}

TEST_CASE("what is wrong in a layout file") {
  const std::vector<std::pair<std::string, Lines>> cases{
      {R"({ "version": 1, "splits": {} })", {"l.json:1:17: error: /splits: unknown key; did you mean \"split\"?"}},
      {R"({ "version": 1, "split": [] })", {"l.json:1:26: error: /split: expected an object, found a list"}},
      {R"({ "version": 1, "split": { "1f": "all" } })",
       {"l.json:1:28: error: /split/1f: \"1f\" is not a valid dim name: letters, digits, _ and -, a letter or _ first"}},
      {R"({ "version": 1, "split": { "f": 1 } })",
       {"l.json:1:33: error: /split/f: expected an axis or { \"axis\", \"parts\" }, found 1"}},
      {R"({ "version": 1, "split": { "f": "all", "f": "all" } })",
       {"l.json:1:40: error: /split/f: this key is written twice; the first is at line 1, column 28"}},
      {R"({ "version": 1, "split": { "f": { "parts": "even" } } })",
       {"l.json:1:33: error: /split/f: \"axis\" is missing (the mesh axis on which the dim is cut, or a list of axes)"}},
      {R"({ "version": 1, "split": { "f": { "axis": "all", "parts": "evn" } } })",
       {"l.json:1:59: error: /split/f/parts: \"evn\" is not known here; did you mean \"even\"?"}},
      {R"({ "version": 1, "split": { "f": { "axis": "all", "parts": 3 } } })",
       {"l.json:1:59: error: /split/f/parts: expected \"profile\", \"even\", \"proportional\", { \"shares\": [...] } or a list of "
        "sizes, found 3"}},
      {R"({ "version": 1, "split": { "f": { "axis": "all", "parts": [1.5, true, -1] } } })",
       {"l.json:1:60: error: /split/f/parts/0: expected an integer of at least 0, found 1.5",
        "l.json:1:65: error: /split/f/parts/1: expected an integer of at least 0, found true",
        "l.json:1:71: error: /split/f/parts/2: expected an integer of at least 0, found -1"}},
      {R"({ "version": 1, "split": { "f": { "axis": "all", "parts": { "share": [1] } } } })",
       {"l.json:1:61: error: /split/f/parts/share: unknown key; did you mean \"shares\"?"}},
      {R"({ "version": 1, "split": { "f": { "axis": "all", "parts": { "shares": [0, 0] } } } })",
       {"l.json:1:71: error: /split/f/parts/shares: expected at least one share above 0"}},
      {R"({ "version": 1, "split": { "f": { "axis": "all", "parts": [[1, 2], [2, 1]] } } })",
       {"l.json:1:59: error: /split/f/parts: lists of sizes need \"per\": the axis along which they differ"}},
      {R"({ "version": 1, "split": { "f": { "axis": "all", "parts": [1, 2], "per": "data" } } })",
       {"l.json:1:74: error: /split/f/per: \"per\" needs one list of sizes per coordinate of that axis, as [[40, 24], [30, 34]]"}},
      {R"({ "version": 1, "split": { "f": { "axis": ["all", "all"] } } })",
       {"l.json:1:51: error: /split/f/axis/1: axis \"all\" is listed twice"}},
      {R"({ "version": 1, "split": { "f": { "axis": [] } } })",
       {"l.json:1:43: error: /split/f/axis: expected at least one axis; a dim without a rule is not cut"}},
      {R"({ "version": 1, "tensors": { "x": "all" } })", {"l.json:1:35: error: /tensors/x: expected an object, found \"all\""}},
      {R"({ "version": 1, "place": { "x": [], "y": 1, "z": ["a", "a"] } })",
       {"l.json:1:33: error: /place/x: expected at least one device", "l.json:1:42: error: /place/y: expected a string, found 1",
        "l.json:1:56: error: /place/z/1: device \"a\" is listed twice"}},
      {R"({ "version": 1, "split": { "1f": "auto" } })",
       {"l.json:1:28: error: /split/1f: \"1f\" is not a valid dim name: letters, digits, _ and -, a letter or _ first"}},
      {R"("automatic")", {"l.json:1:1: error: expected an object, found \"automatic\""}}};
  for (const auto& [text, expected] : cases) {
    INFO(text);
    CHECK(said_of(text) == expected);
  }
}

TEST_CASE("a layout file can leave everything, a dim or a layer to the planner") {
  const Folder folder("motley-rules");
  const auto load = [&](const std::string& text) { return LayoutRules::load(folder.write("l.json", text)); };
  const auto again = [&](const LayoutRules& rules) { return load(to_text(to_json(rules), 2)) == rules; };
  const LayoutRules all = load(R"({ "version": 1, "split": "auto", "tensors": { "c": { "f": "all" } }, "place": { "d": "x" } })");
  CHECK(all.open.everything);
  CHECK(all.split.empty());
  CHECK(all.tensors.size() == 1);
  CHECK(again(all));
  const LayoutRules some = load(R"({ "version": 1, "split": { "f": "auto", "g": "all" }, "tensors": { "c": "auto" } })");
  CHECK(!some.open.everything);
  CHECK(some.open.dims == std::vector<std::string>{"f"});
  CHECK(some.open.layers == std::vector<std::string>{"c"});
  CHECK((some.split == std::vector<Rule>{{"g", "all"}}));
  CHECK(some.tensors.empty());
  CHECK(again(some));
  CHECK(load(R"("auto")") == LayoutRules::automatic());
}

TEST_CASE("rules that fit") {
  CHECK(complaints_of(kAll, {}) == Lines{});
  CHECK(complaints_of(kAll, {{"filters1", "all"}, {"hidden", "all", Sizes{{12, 0, 0}}}}) == Lines{});
  CHECK(complaints_of(kAll, {{"rows", "all", Sizes{{20, 8, 0}}}}) == Lines{});  // the inputs' size, though pooled later
  CHECK(complaints_of(kAll, {{"batch", "all", Sizes{{7, 2, 0}}}}) == Lines{});  // rescaled to any batch
  CHECK(complaints_of(kTwo, {{"filters1", {"data", "model"}, Sizes{{10, 10, 10, 10, 10, 10}}}}) == Lines{});
  CHECK(complaints_of(kTwo, {{"filters1", "model", Jagged{{{10, 20, 30}, {60, 0, 0}}, "data"}}, {"batch", "data"}}) == Lines{});
  // Parameters may have two dims on one axis, and an override takes the clash from an output.
  CHECK(complaints_of(kAll, {{"hidden", "all"}, {"classes", "all"}}) == Lines{});
  LayoutRules rules{{"batch", "all"}, {"hidden", "all"}};
  rules.tensor("wide", {{"hidden", Axes{}}});
  CHECK(complaints_of(kAll, rules) == Lines{});
}

TEST_CASE("rules that do not fit") {
  CHECK(
      complaints_of(kAll, {{"hidden", "even"}}) ==
      Lines{
          R"(/split/hidden/axis/0: the mesh has no axis "even"; that says how to cut, not where: { "axis": "all", "parts": "even" })"});
  CHECK(complaints_of(kAll, {{"filters1", "al"}}) ==
        Lines{"/split/filters1/axis/0: the mesh has no axis \"al\"; did you mean \"all\"?"});
  CHECK(complaints_of(kAll, {{"filter1", "all"}}) ==
        Lines{"/split/filter1: the model has no dim \"filter1\"; did you mean \"filters1\"?"});
  CHECK(complaints_of(kAll, {{"window-rows", "all"}}).size() == 1);
  CHECK(complaints_of(kAll, {{"hidden", "all"}, {"hidden", "all"}}) ==
        Lines{"/split/hidden: two rules for dim \"hidden\"; keep one"});
  CHECK(complaints_of(kAll, {{"filters1", "all", Sizes{{30, 20, 8}}}}) ==
        Lines{"/split/filters1/parts: the parts sum to 58, but \"filters1\" has the size 60; [31, 21, 8] would be right"});
  CHECK(complaints_of(kAll, {{"filters1", "all", Sizes{{0, 0, 0}}}}) ==
        Lines{"/split/filters1/parts: the parts sum to 0, but \"filters1\" has the size 60; [20, 20, 20] would be right"});
  CHECK(complaints_of(kAll, {{"rows", "all", Sizes{{7, 7, 0}}}}) ==
        Lines{"/split/rows/parts: the parts sum to 14, but \"rows\" has the size 28 in the inputs; [14, 14, 0] would be right"});
  CHECK(complaints_of(kAll, {{"batch", "all", Sizes{{0, 0, 0}}}}) ==
        Lines{"/split/batch/parts: expected at least one part above 0"});
  CHECK(complaints_of(kAll, {{"filters1", "all", Sizes{{60}}}}) ==
        Lines{"/split/filters1/parts: 1 part, but axis \"all\" has 3 ranks; expected one part per rank (0 is allowed)"});
  CHECK(complaints_of(kTwo, {{"filters1", {"data", "model"}, Sizes{{30, 30}}}}) ==
        Lines{"/split/filters1/parts: 2 parts, but the axes \"data\" and \"model\" have 6 ranks; expected one part per rank (0 "
              "is allowed)"});
  CHECK(complaints_of(kAll, {{"filters1", "all", Shares{{1, 2}}}}) ==
        Lines{"/split/filters1/parts/shares: 2 shares, but axis \"all\" has 3 ranks; expected one share per rank (0 is allowed)"});
  CHECK(complaints_of(kAll, {{"filters1", "all", Shares{{1, -2, 3}}}}) ==
        Lines{"/split/filters1/parts/shares: shares are numbers of at least 0, one of them above 0"});
  CHECK(complaints_of(kAll, {{"filters1", Axes{}, Sizes{{30, 30}}}}) ==
        Lines{"/split/filters1: has parts but no axis; name the mesh axes of the cut, or leave the parts out (not cut)"});
  CHECK(complaints_of(kTwo, {{"filters1", "model", Jagged{{{20, 20, 20}, {20, 20, 10}}, "data"}}}) ==
        Lines{"/split/filters1/parts/1: the parts sum to 50, but \"filters1\" has the size 60; [24, 24, 12] would be right"});
  CHECK(complaints_of(kTwo, {{"filters1", "model", Jagged{{{20, 20, 20}}, "data"}}}) ==
        Lines{"/split/filters1/parts: 1 list of parts, but axis \"data\" has the size 2; expected one list per coordinate of it"});
  CHECK(complaints_of(kTwo, {{"filters1", "model", Jagged{{{20, 20, 20}}, "model"}}}) ==
        Lines{"/split/filters1/per: \"per\" may not be an axis of the cut itself; \"model\" is"});
  CHECK(complaints_of(kTwo, {{"filters1", "model", Jagged{{{20, 20, 20}}, "date"}}}) ==
        Lines{"/split/filters1/per: the mesh has no axis \"date\"; did you mean \"data\"?"});
}

TEST_CASE("tensors and places no one knows") {
  auto with = [](const std::string& tensor, Rule rule) { return LayoutRules().tensor(tensor, {std::move(rule)}); };
  CHECK(complaints_of(kAll, with("fist", {"batch", "all"})) ==
        Lines{"/tensors/fist: the model has no input, layer or parameter \"fist\"; did you mean \"first\"?"});
  CHECK(
      complaints_of(kAll, with("first.weigth", {"batch", "all"})) ==
      Lines{"/tensors/first.weigth: the model has no input, layer or parameter \"first.weigth\"; did you mean \"first.weight\"?"});
  CHECK(complaints_of(kAll, with("gradient of first.weight", {"filters1", "all"})) ==
        Lines{"/tensors/gradient of first.weight: gradients are laid out like their tensors; name \"first.weight\""});
  CHECK(complaints_of(kAll, with("wide.weight", {"rows", "all"})) ==
        Lines{"/tensors/wide.weight/rows: \"wide.weight\" has no dim \"rows\" (known: hidden, flat)"});
  CHECK(complaints_of(kAll, with("wide.weight", {"hidden", "all", Sizes{{1, 2, 3}}})) ==
        Lines{"/tensors/wide.weight/hidden/parts: the parts sum to 6, but \"hidden\" has the size 12; [2, 4, 6] would be right"});
  CHECK(complaints_of(kTwo, LayoutRules().tensor("wide", {{"hidden", "data"}, {"hidden", "model"}})) ==
        Lines{"/tensors/wide/hidden: two rules for dim \"hidden\"; keep one"});
  CHECK(complaints_of(kAll, LayoutRules().place("lst", {"d0"})) ==
        Lines{"/place/lst: the model has no layer \"lst\"; did you mean \"last\"?"});
  CHECK(complaints_of(kAll, LayoutRules().place("last", {"d0", "d9"})) ==
        Lines{"/place/last/1: the mesh has no device \"d9\"; did you mean \"d0\"?"});
  CHECK(complaints_of(kAll, LayoutRules().place("last", {})) == Lines{"/place/last: expected at least one device"});
}

TEST_CASE("two dims of an input or an output on one axis") {
  CHECK(complaints_of(kAll, {{"batch", "all"}, {"hidden", "all"}}) ==
        Lines{"/split/hidden: the dims \"batch\", \"hidden\" of \"wide\" cannot both be cut over one axis, \"all\"; say which of "
              "them is not cut "
              "there, as "
              "\"tensors\": { \"wide\": { \"hidden\": null } }"});
  CHECK(complaints_of(kAll, {{"rows", "all"}, {"cols", "all"}}) ==
        Lines{"/split/cols: the dims \"rows\", \"cols\" of \"image\", \"first\", \"hot\", \"pool\" cannot both be cut over one "
              "axis, \"all\"; say "
              "which of them is not cut "
              "there, as \"tensors\": { \"image\": { \"cols\": null }, \"first\": { \"cols\": null }, \"hot\": { \"cols\": null }, "
              "\"pool\": { \"cols\": null } }"});
  CHECK(complaints_of(kTwo, {{"rows", {"data", "model"}}, {"cols", "model"}}).size() == 1);
  CHECK(complaints_of(kTwo, {{"rows", "data"}, {"cols", "model"}}) == Lines{});
  // A rule that is wrong by itself is not compared with others.
  CHECK(complaints_of(kAll, {{"batch", "all"}, {"hidden", "al"}}).size() == 1);
  // flatten's dim inherits the cut of its first merged dim.
  CHECK(complaints_of(kAll, LayoutRules{{"batch", "all"}, {"filters1", "all"}}
                                .tensor("first", {{"filters1", Axes{}}})
                                .tensor("hot", {{"filters1", Axes{}}})
                                .tensor("pool", {{"filters1", Axes{}}})) ==
        Lines{"/split/filters1: the dims \"batch\", \"flat\" of \"flattened\" cannot both be cut over one axis, \"all\"; say which "
              "of them is not "
              "cut there, as "
              "\"tensors\": { \"flattened\": { \"flat\": null } }"});
}

TEST_CASE("what a layer has inside is cut without its dims where the advice of one complaint is followed") {
  const Dim batch{"batch", 6}, positions{"positions", 6};
  Graph g;
  const Tensor x = g.input("x", {batch, {"f", 12}, positions});
  const Tensor normed = group_norm(x, {.groups = 3, .name = "normed"});
  const Step norms = inference({normed});
  const Step attends = inference({attention(g.input("y", {batch, positions, {"hidden", 12}}),
                                            {.heads = {"heads", 3}, .over = positions, .name = "attended"})});
  const auto said = [](const Step& step, const LayoutRules& rules) {
    Lines out;
    for (const RuleComplaint& c : check_rules(step.passes(), kAll, rules)) out.push_back(c.text);
    if (out.empty())
      if (const auto c = check_layouts(step.passes(), kAll, rules)) out.push_back(c->text);
    return out;
  };
  const auto advice = [](const std::string& dims, const std::string& tensors) {
    return "the dims " + dims +
           " cannot both be cut over one axis, \"all\"; say which of them is not cut there, as \"tensors\": { " + tensors + " }";
  };
  const LayoutRules channels{{batch, "all"}, {Dim{"f", 12}, "all"}};
  CHECK(said(norms, channels) ==
        Lines{advice(R"("batch", "f" of "x", "normed")", R"("x": { "f": null }, "normed": { "f": null })")});
  CHECK(said(norms, LayoutRules(channels).tensor("x", {{"f", Axes{}}}).tensor("normed", {{"f", Axes{}}})) == Lines{});
  const LayoutRules heads{{batch, "all"}, {positions, "all"}, {Dim{"heads", 3}, "all"}};
  CHECK(said(attends, heads) ==
        Lines{advice(R"("batch", "positions" of "y", "attended")",
                     R"("y": { "positions": null }, "attended": { "positions": null })"),
              advice(R"("batch", "positions", "heads" of "attended")", R"("attended": { "positions": null, "heads": null })")});
  CHECK(
      said(
          attends,
          LayoutRules(heads).tensor("y", {{"positions", Axes{}}}).tensor("attended", {{"heads", Axes{}}, {"positions", Axes{}}})) ==
      Lines{});
}

TEST_CASE("the rule that holds for a dim of a tensor") {
  static const Net net;
  const Passes& passes = net.step.passes();
  const LayoutRules rules = LayoutRules{{"batch", "all"}, {"filters1", "all"}}
                                .tensor("first", {{"filters1", Axes{}}, {"rows", "all"}})
                                .tensor("first.weight", {{"filters1", "all"}});
  const EffectiveRules effective(rules, passes);
  auto of = [&](const std::string& tensor, const std::string& dim) {
    return effective.rule_for(at(passes.tensors, passes.find(tensor)), dim);
  };
  CHECK(of("pool", "filters1").pointer() == "/split/filters1");
  CHECK(of("pool", "filters1").cuts());
  CHECK(of("pool", "rows").pointer() == "");
  CHECK_FALSE(of("pool", "rows").cuts());
  CHECK(of("first", "filters1").pointer() == "/tensors/first/filters1");
  CHECK_FALSE(of("first", "filters1").cuts());
  CHECK(of("first.weight", "filters1").pointer() == "/tensors/first.weight/filters1");  // the tensor's before its layer's
  CHECK(of("first.weight", "filters1").cuts());
  CHECK(of("flattened", "flat").pointer() == "/split/filters1");
  REQUIRE(of("flattened", "flat").derived != nullptr);
  CHECK(of("flattened", "flat").derived->of == "filters1");
  CHECK(of("pool", "filters1").derived == nullptr);
}

TEST_CASE("a dim that comes from two others follows the first of them that has a rule") {
  Graph g;
  const Tensor x = g.input("x", {{"n", 4}, {"a", 6}, {"b", 6}});
  const Step step = inference({rename(x, {"a"}, {"m"}, {"one"}), rename(x, {"b"}, {"m"}, {"two"})});
  const Passes& passes = step.passes();
  auto source = [&](const LayoutRules& rules) {
    return EffectiveRules(rules, passes).rule_for(at(passes.tensors, passes.find("two")), "m").derived->of;
  };
  CHECK(source({{"a", "all"}}) == "a");
  CHECK(source({{"b", "all"}}) == "b");
  CHECK(source({{"b", "all"}, {"a", "all"}}) == "a");
  const auto complaints = check_rules(passes, kAll, {{"b", "all"}});  // one[n m b]
  REQUIRE(complaints.size() == 1);
  CHECK(complaints[0].pointer == "/split/b");
  CHECK(complaints[0].text.starts_with("the dims \"m\", \"b\" of \"one\" cannot both be cut over one axis, \"all\""));
}

TEST_CASE("placed layers and their own explicit parts") {
  CHECK(complaints_of(kAll, LayoutRules{{"classes", "all"}}.place("last", {"d1"})) == Lines{});
  CHECK(complaints_of(kAll, LayoutRules{{"classes", "all", Sizes{{0, 10, 0}}}}.place("last", {"d1"})) == Lines{});
  CHECK(complaints_of(kAll, LayoutRules{{"classes", "all", Sizes{{4, 6, 0}}}}.place("last", {"d1"})) ==
        Lines{"/place/last: \"last\" is not placed on \"d0\", but the parts of \"classes\" give that device 4 of its output; give "
              "it 0, or write "
              "\"tensors\": { \"last\": { \"classes\": null } }"});
  CHECK(complaints_of(kAll, LayoutRules{{"hidden", "all", Sizes{{4, 8, 0}}}}.place("last", {"d1"})) == Lines{});  // of its input
  CHECK(complaints_of(kTwo, LayoutRules{{"classes", "model", Sizes{{4, 6, 0}}}, {"batch", "data", Sizes{{1, 0}}}}.place(
                                "last", {"d0", "d1"})) == Lines{});
}

TEST_CASE("rules written in C++ throw the first complaint") {
  static const Net net;
  CHECK_NOTHROW(require_rules(net.step.passes(), kAll, {{"filters1", "all"}}));
  CHECK_THROWS_WITH(require_rules(net.step.passes(), kAll, {{"filters1", "al"}}),
                    "layout rules, /split/filters1/axis/0: the mesh has no axis \"al\"; did you mean \"all\"?");
}
