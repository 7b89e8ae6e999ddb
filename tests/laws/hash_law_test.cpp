// SPDX-License-Identifier: Apache-2.0
// Hash law: change any field of any value that decides what is computed, and it is another value with another hash; made twice, it
// is the same.
#include <motley/error.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <set>

#include "base/hash.h"
#include "plan/plan_fields.h"
#include "plan/planner.h"
#include "tests/support/backend_law.h"
#include "tests/support/config_files.h"
#include "tests/support/random_network.h"

using namespace motley;
using namespace motley::law;

namespace {

using Changed = std::function<void()>;  // called while one thing is changed

// ---- calls `changed` with each small change made to `value`, one at a time, and undone after it. Of long lists some elements.

template <class T>
void change(T& value, const Changed& changed);

template <class T>
void with(T& value, T other, const Changed& changed) {
  std::swap(value, other);
  changed();
  std::swap(value, other);
}

template <class T>
void change_elements(T& list, const Changed& changed) {
  const std::size_t stride = list.size() / 4 + 1;
  for (std::size_t i = 0; i < list.size(); i += stride) {
    if constexpr (std::is_same_v<T, std::vector<bool>>) {
      list[i] = !list[i];
      changed();
      list[i] = !list[i];
    } else {
      change(list[i], changed);
    }
  }
}

void change_leaf(std::string& value, const Changed& changed) {
  with(value, value + "x", changed);
  if (!value.empty()) with(value, value.substr(1), changed);
}
template <class T>
void change_leaf(std::vector<T>& value, const Changed& changed) {
  change_elements(value, changed);
  std::vector<T> longer = value;
  longer.push_back(value.empty() ? T{} : value.back());
  with(value, longer, changed);
  if (!value.empty()) with(value, std::vector<T>(value.begin() + 1, value.end()), changed);
  if (value.size() > 1 && !(value.front() == value.back())) {
    std::vector<T> turned = value;
    std::iter_swap(turned.begin(), std::prev(turned.end()));
    with(value, turned, changed);
  }
}
void change_leaf(std::vector<Rule>& value, const Changed& changed) {
  change_elements(value, changed);
  std::vector<Rule> longer = value;
  longer.emplace_back("more", Axes("a"));
  with(value, longer, changed);
}
template <class T, std::size_t N>
void change_leaf(std::array<T, N>& value, const Changed& changed) {
  change_elements(value, changed);
}
template <class K, class T>
void change_leaf(std::map<K, T>& value, const Changed& changed) {
  if (!value.empty()) {
    change(value.begin()->second, changed);
    std::map<K, T> less(std::next(value.begin()), value.end()), other = less;
    with(value, less, changed);
    K key = value.begin()->first;
    if constexpr (std::is_same_v<K, int>)
      key -= 1;
    else
      key += "x";
    other.emplace(key, value.begin()->second);
    with(value, other, changed);
  } else {
    with(value, std::map<K, T>{{K{}, T{}}}, changed);
  }
}
template <class T>
void change_leaf(std::optional<T>& value, const Changed& changed) {
  if (value) change(*value, changed);
  with(value, value ? std::optional<T>() : std::optional<T>(T{}), changed);
}
template <class T>
void change_leaf(std::shared_ptr<const T>& value, const Changed& changed) {
  if (value) {
    T inner = *value;
    change(inner, [&] { with(value, std::shared_ptr<const T>(std::make_shared<T>(inner)), changed); });
  }
  with(value, value ? nullptr : std::shared_ptr<const T>(std::make_shared<T>()), changed);
}
void change_leaf(Box& value, const Changed& changed) {
  std::vector<Range> ranges(value.begin(), value.end());
  change(ranges, [&] { with(value, Box(ranges.begin(), ranges.end()), changed); });
}
void change_leaf(Parts& value, const Changed& changed) {
  std::visit([&](auto& one) { change(one, changed); }, value);
  for (const Parts& other : {Parts{CutBy::even}, Parts{Shares{{1, 2}}}, Parts{Sizes{{1, 2}}}, Parts{Jagged{{{1, 2}}, "a"}}})
    if (other.index() != value.index()) with(value, other, changed);
}
// Classes that keep their fields to themselves are made again; what they refuse is not a value.
void change_leaf(Shape& value, const Changed& changed) {
  std::vector<Dim> dims = value.dims();
  change(dims, [&] {
    std::optional<Shape> other;
    try {
      other = Shape(dims);
    } catch (const UserError&) {
      return;
    }
    with(value, *other, changed);
  });
}
void change_leaf(Partition& value, const Changed& changed) {
  std::vector<Index> sizes = value.sizes();
  change(sizes, [&] { with(value, Partition::of(sizes), changed); });
}
void change_leaf(Mesh& value, const Changed& changed) {
  std::vector<Axis> axes = value.axes();
  std::vector<Device> devices = value.devices();
  std::vector<MeshLink> links = value.links();
  auto made = [&] {
    std::optional<Mesh> other;
    try {
      other.emplace(axes, devices, links);
    } catch (const UserError&) {
      return;
    }
    with(value, *other, changed);
  };
  change(axes, made);
  change(devices, made);
  change(links, made);
}

template <class T>
void change(T& value, const Changed& changed) {
  if constexpr (std::is_same_v<T, bool>)
    with(value, !value, changed);
  else if constexpr (std::is_enum_v<T>)
    with(value, static_cast<T>(static_cast<std::underlying_type_t<T>>(value) ^ 1), changed);
  else if constexpr (std::is_integral_v<T>)
    with(value, static_cast<T>(value + 1), changed);
  else if constexpr (std::is_floating_point_v<T>)
    with(value, std::nextafter(value, 1e9), changed);
  else if constexpr (HasFields<T> && !std::is_same_v<T, Shape> && !std::is_same_v<T, Partition> && !std::is_same_v<T, Mesh>)
    for_each_field<T>([&](const auto& f) { change(value.*f.member, changed); });
  else
    change_leaf(value, changed);
}

// The law for one value. Returns how many changes were tried.
template <class T>
int hold(T value) {
  const T was = value;
  const std::uint64_t hash = hash_of(was);
  int tried = 0, wrong = 0;
  change(value, [&] {
    tried++;
    wrong += hash_of(value) == hash || value == was;
  });
  CHECK(wrong == 0);
  CHECK(value == was);  // all was undone
  CHECK(hash_of(value) == hash);
  return tried;
}

// The network of the reproducer: s = c + (b or a), t = s + a + b; the loss a mean or a sum.
Step reproducer(bool of_b, bool mean_loss) {
  Graph g;
  const Dim n{"batch", 4}, in{"in", 1}, rows{"rows", 8}, cols{"cols", 8}, f{"f", 8}, classes{"classes", 10};
  const Tensor image = g.input("image", {n, in, rows, cols}), label = g.input("label", {n}, DType::i32);
  auto conv = [&](const char* name) { return conv2d(image, {.out = f, .window = 3, .padding = same, .name = name}); };
  const Tensor a = conv("a"), b = conv("b"), c = conv("c");
  const Tensor s = add({c, of_b ? b : a}, {"s"}), t = add({s, a, b}, {"t"});
  const Tensor each = softmax_cross_entropy(dense(t, {.out = {classes}}), label, classes);
  return training(mean_loss ? mean(each, {}, {"loss"}) : sum(each, {}, {"loss"}), Sgd{});
}

}  // namespace

TEST_CASE("hash law: kernels", "[law]") {
  int tried = 0;
  for (int i = 0; i < 300; i++) tried += hold(testing::law_case(23, i, testing::LawMode::tolerance).spec);
  CHECK(tried > 10000);
  KernelSpec zero, minus;
  zero.scale = 0.0;
  minus.scale = -0.0;
  CHECK((zero == minus && hash_of(zero) == hash_of(minus)));
}

TEST_CASE("hash law: meshes and rules", "[law]") {
  Device emulated{.name = "slow", .host = "node1", .isa = "avx2", .cores = {0, 2}, .memory_bytes = 5};
  emulated.kind = DeviceKind::emulated;
  emulated.of = std::make_shared<Device>(Device{.name = "fast"});
  CHECK(hold(emulated) > 20);
  Device twin = emulated;
  twin.of = std::make_shared<Device>(*emulated.of);
  CHECK((twin == emulated && hash_of(twin) == hash_of(emulated)));  // by value, not by address
  const Mesh mesh({{"a", 2}, {"b", 2}}, {emulated, Device{.name = "1"}, Device{.name = "2"}, Device{.name = "3"}});
  CHECK(hold(mesh) > 40);
  Device modelled{.name = "not here"};
  modelled.kind = DeviceKind::modelled;
  modelled.numbers = std::make_shared<const DeviceNumbers>(DeviceNumbers{1e12, 1e11, 1e-6, 1000});
  CHECK(hold(modelled) > 25);
  CHECK(hold(Mesh({{"a", 2}}, {modelled, Device{.name = "1"}}, {{MeshLink::Between::devices, "not here", "1", 1e-6, 2e9}})) > 30);
  LayoutRules rules{{"batch", "a"},
                    {"f", {"a", "b"}, Shares{{1, 2, 3, 4}}},
                    {"g", "b", Sizes{{3, 1}}},
                    {"h", "a", Jagged{{{3, 1}, {2, 2}}, "b"}}};
  rules.tensor("w", {{"f", Axes()}}).place("dense_1", {"slow"});
  CHECK(hold(rules) > 35);
  CHECK(hold(BalanceOptions{}) == 2);
  CHECK(hash_of(LayoutRules{{"f", "ab"}}) != hash_of(LayoutRules{{"f", {"a", "b"}}}));
  CHECK(hash_of(Axes({"ab", "c"})) != hash_of(Axes({"a", "bc"})));  // texts after their lengths
}

TEST_CASE("hash law: steps and plans", "[law]") {
  int tried = 0, plans = 0;
  std::set<std::uint64_t> hashes;
  for (unsigned number = 0; number < share_of(12U); number++) {
    Random random(77000 + number);
    Case one{random_recipe(random), {{"a", static_cast<int>(pick(random, 1, 4))}}, {}, 0};
    const Network net = build(one.net);
    one.cuts = random_cuts(random, net, one.axes, {.often = 0.5, .spatial = 0.3});
    const Mesh mesh = mesh_of(one.axes, static_cast<int>(number % 2) + 1);
    const Step step = training(net.loss, Sgd{.learning_rate = 0.05, .momentum = 0.9}),
               again = training(build(one.net).loss, Sgd{.learning_rate = 0.05, .momentum = 0.9});
    CHECK(step.hash() == again.hash());
    CHECK(step.passes() == again.passes());
    tried += hold(step.passes());
    hashes.insert(step.hash());
    try {
      const Plan plan = balance(step, mesh, rules_of(one, net), {});
      const Plan twin = balance(again, mesh, rules_of(one, net), {});
      CHECK((plan.data() == twin.data() && hash_of(plan.data()) == hash_of(twin.data()) && plan.hash() == twin.hash()));
      if (plans++ % 3 == 0) tried += hold(plan.data());
      CHECK(balance(step, mesh, rules_of(one, net), {}, {.dtype = DType::f64}).hash() != plan.hash());
    } catch (const UserError&) {
    }
  }
  CHECK(plans > when_all(5));
  CHECK(tried > when_all(5000));
  CHECK(hashes.size() == share_of(12U));
}

TEST_CASE("hash law: two networks that differ in what a pass reads, or in mean and sum, are two", "[law]") {
  std::set<std::uint64_t> hashes;
  for (const bool of_b : {true, false})
    for (const bool mean_loss : {true, false}) hashes.insert(reproducer(of_b, mean_loss).hash());
  CHECK(hashes.size() == 4);
  CHECK(reproducer(true, true).hash() == reproducer(true, true).hash());
  const Folder folder("motley-hash-law");
  const Mesh mesh = mesh_of({{"all", 2}});
  const std::string file = folder.write("plan.json", "");
  balance(reproducer(true, true), mesh, {{"batch", "all", CutBy::even}}, {}).save(file);
  CHECK_NOTHROW(Plan::load(file, reproducer(true, true), mesh));
  for (const auto& [of_b, mean_loss] : {std::pair{false, true}, {true, false}})
    CHECK_THROWS_WITH(Plan::load(file, reproducer(of_b, mean_loss), mesh), Catch::Contains("for another step"));
}

TEST_CASE("hash law: long values are hashed as the bytes they are", "[law]") {
  std::vector<Index> list(5000);
  std::set<std::uint64_t> hashes;
  for (std::size_t length : {std::size_t{0}, std::size_t{1}, std::size_t{126}, std::size_t{127}, std::size_t{128}, std::size_t{129},
                             std::size_t{5000}}) {
    list.resize(length);
    hashes.insert(hash_of(list));
    std::string bytes(sizeof(std::size_t) + length * sizeof(Index), '\0');
    std::memcpy(bytes.data(), &length, sizeof length);
    CHECK(hash_of(list) == hash_bytes(bytes));  // in one go, or filled up bit by bit
    list.resize(5000);
  }
  CHECK(hashes.size() == 7);
}

// A list that leaves out a field, has one twice or in another place does not compile: this is what refuses it.
namespace {
struct Whole {
  int a = 0;
  bool b = false, c = false;
  std::optional<double> d{};
};
struct Less {
  int a = 0;
  bool b = false, c = false;
  std::optional<double> d{};
};
struct Twice {
  int a = 0, b = 0;
};
}  // namespace
template <>
struct motley::Fields<Whole> {
  static constexpr std::tuple list{field("a", &Whole::a), field("b", &Whole::b), field("c", &Whole::c), field("d", &Whole::d)};
};
template <>
struct motley::Fields<Less> {
  static constexpr std::tuple list{field("a", &Less::a), field("b", &Less::b), field("c", &Less::c)};
};
template <>
struct motley::Fields<Twice> {
  static constexpr std::tuple list{field("a", &Twice::a), field("b", &Twice::a)};
};

TEST_CASE("hash law: a list of fields is whole or does not compile", "[law]") {
  CHECK(lists_all_fields<Whole>());
  CHECK_FALSE(lists_all_fields<Less>());
  CHECK_FALSE(lists_all_fields<Twice>());
  CHECK(lists_all_fields<PlanData>());
}
