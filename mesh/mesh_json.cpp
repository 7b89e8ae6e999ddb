// SPDX-License-Identifier: Apache-2.0
#include "mesh/mesh_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <unordered_set>

#include "base/control_groups.h"

namespace motley {

namespace {

constexpr std::size_t kMostAxes = 64;
constexpr std::int64_t kMostAlong = 4096, kMostDeviceThreads = 4096, kMostCores = 65536, kMostInMesh = 65536;
constexpr double kMostPerSecond = 1e24, kMostLinkSeconds = 3600;

struct MeshFile {
  std::vector<Axis> axes{};
  bool open_axes = false;             // "auto"
  std::vector<Device> devices{};      // each as often as its count says
  std::vector<std::size_t> places{};  // of each device, in the file's list
  std::vector<MeshLink> links{};
};

template <class T, class M>
Field<T> integer_within(const char* name, const char* doc, M T::*member, std::int64_t lo, std::int64_t hi, bool required = false) {
  return {name,
          doc,
          "integer",
          required,
          [=](Reader& r, const Json& j, T& out) {
            std::int64_t v = 0;
            if (r.integer(j, v, lo, hi)) out.*member = static_cast<M>(v);
          },
          {},
          T{}.*member};
}

const Table<Axis>& axis_table() {
  static const Table<Axis> table{
      {"name", "name of the axis", "name", true, [](Reader& r, const Json& j, Axis& a) { r.name(j, a.name); }},
      integer_within<Axis>("size", "number of ranks along the axis", &Axis::size, 1, kMostAlong, true)};
  return table;
}

const std::vector<std::string>& device_kinds() {
  static const std::vector<std::string> kinds{"cpu", "cuda", "emulated", "modelled"};
  return kinds;
}

void read_device_name(Reader& r, const Json& j, Device& d) {
  if (!r.text(j, d.name)) return;
  const bool odd = std::any_of(d.name.begin(), d.name.end(), [](char c) { return static_cast<unsigned char>(c) < 32 || c == 127; });
  if (d.name.empty() || d.name.size() > 64 || odd) r.complain(j, "a device's name has 1 to 64 characters, no control characters");
}

void read_host(Reader& r, const Json& j, Device& d) {
  if (!r.text(j, d.host)) return;
  auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); };
  const bool good =
      !d.host.empty() && d.host.size() < 256 && letter(d.host[0]) &&
      std::all_of(d.host.begin(), d.host.end(), [&](char c) { return letter(c) || c == '.' || c == '-' || c == '_'; });
  if (!good) r.complain(j, Reader::kind(j) + " is not a valid host name: letters, digits, . - and _, a letter or digit first");
}

void read_cores(Reader& r, const Json& j, Device& d) {
  std::vector<int> cores;
  r.list(j, [&](const Json& one, std::size_t) {
    std::int64_t core = 0;
    if (!r.integer(one, core, 0, kMostCores)) return;
    if (std::find(cores.begin(), cores.end(), core) != cores.end())
      r.complain(one, "core " + std::to_string(core) + " is listed twice");
    cores.push_back(static_cast<int>(core));
  });
  if (const auto* list = std::get_if<Json::Array>(&j.value); list != nullptr && list->empty())
    r.complain(j, "expected at least one core; without `cores` a device takes the host's cores in turn");
  d.cores = std::move(cores);
}

using Granules = DeviceNumbers::Granules;
using Efficiency = DeviceNumbers::Efficiency;

constexpr std::int64_t kMostGranule = 65536;

const Table<Granules>& granules_table() {
  static const Table<Granules> table{
      integer_within("filters", "of convolutions and dense layers", &Granules::filters, 1, kMostGranule),
      integer_within("channels", "likewise; of depthwise convolutions their groups", &Granules::channels, 1, kMostGranule),
      integer_within("batch", "samples", &Granules::batch, 1, kMostGranule),
      integer_within("rows", "rows of a convolution's result", &Granules::rows, 1, kMostGranule)};
  return table;
}

const Table<Efficiency>& efficiency_table() {
  const auto part = [](const char* name, const char* doc, double Efficiency::*member) -> Field<Efficiency> {
    return {name,
            doc,
            "number",
            false,
            [member](Reader& r, const Json& j, Efficiency& e) { r.number(j, e.*member, {.least = 0, .most = 1, .above = true}); },
            {},
            Efficiency{}.*member};
  };
  static const Table<Efficiency> table{part("conv2d", "convolutions", &Efficiency::conv2d),
                                       part("depthwise", "convolutions with one channel per group", &Efficiency::depthwise),
                                       part("dense", "dense layers and attention", &Efficiency::dense),
                                       part("map", "pools and all else", &Efficiency::map)};
  return table;
}

// Of a modelled device: read(reader, json, numbers).
template <class F>
Field<Device> number_field(const char* name, const char* doc, const char* type, F read, Json schema = {}, Json usual = {}) {
  return {name,
          doc,
          type,
          false,
          [read](Reader& r, const Json& j, Device& d) {
            DeviceNumbers numbers = d.numbers ? *d.numbers : DeviceNumbers();
            read(r, j, numbers);
            d.numbers = std::make_shared<const DeviceNumbers>(numbers);
          },
          std::move(schema),
          std::move(usual)};
}

const Table<Device>& device_table() {
  static const Table<Device> table{
      {"name", "unique in its mesh; default: `rank N`", "text", false, read_device_name},
      word_field("kind", "cpu, cuda, emulated or modelled", &Device::kind, device_kinds(), true),
      {"count",
       "stands for so many ranks, called `name[0]`, `name[1]`, ...; of kind cuda their index counts up",
       "integer",
       false,
       [](Reader&, const Json&, Device&) {},
       {},
       1},  // see read_devices
      integer_within<Device>("index", "cuda: which GPU of its host", &Device::index, 0, 1023),
      integer_within<Device>("threads", "threads of its CPU kernels", &Device::threads, 1, kMostDeviceThreads),
      {"cores", "cores that it is bound to; default: the host's allowed cores in turn", "list", false, read_cores,
       schema_of_list(schema_of_type("integer"))},
      {"isa", "highest instruction set that its CPU kernels may use (`generic`: only Eigen's); default: all that the CPU has",
       "text", false, [](Reader& r, const Json& j, Device& d) { r.text(j, d.isa, isa_names()); }, schema_of_words(isa_names())},
      {"library", "library of its CPU convolutions and matrix products; default: onednn if motley is built with it, else eigen",
       "text", false, [](Reader& r, const Json& j, Device& d) { r.text(j, d.library, cpu_library_names()); },
       schema_of_words(cpu_library_names())},
      {"memory_bytes", "limit of the memory that it may use; default: what the device has", "integer", false,
       [](Reader& r, const Json& j, Device& d) { r.integer(j, d.memory_bytes, 1, Index{1} << 53); }},
      {"host", "name of another machine; default: this one", "text", false, read_host},
      {"of", "emulated: the device that is made slower", "object", false, [](Reader&, const Json&, Device&) {}},  // see read_device
      {"slowdown", "emulated: how many times slower, 1 to 1000", "number", false,
       [](Reader& r, const Json& j, Device& d) { r.number(j, d.slowdown, 1, 1000); }},
      boolean_field("tf32", "cuda: f32 products may be computed in TF32 on tensor cores, with fewer mantissa bits", &Device::tf32),
      boolean_field("deterministic", "cuda: false allows kernels whose order of summation varies from run to run",
                    &Device::deterministic),
      number_field("flops_per_second", "modelled: what its arithmetic reaches at most; a multiply-add counts 2", "number",
                   [](Reader& r, const Json& j, DeviceNumbers& n) { r.number(j, n.flops_per_second, 1, kMostPerSecond); }),
      number_field("memory_bytes_per_second", "modelled: what its memory reaches", "number",
                   [](Reader& r, const Json& j, DeviceNumbers& n) { r.number(j, n.memory_bytes_per_second, 1, kMostPerSecond); }),
      number_field(
          "granules", "modelled: multiples in which extents take time", "object",
          [](Reader& r, const Json& j, DeviceNumbers& n) { r.object(j, granules_table(), n.granules); },
          object_schema(granules_table())),
      number_field(
          "efficiency", "modelled: parts of flops_per_second that kernels reach", "object",
          [](Reader& r, const Json& j, DeviceNumbers& n) { r.object(j, efficiency_table(), n.efficiency); },
          object_schema(efficiency_table())),
      number_field(
          "launch_seconds", "modelled: of every kernel", "number",
          [](Reader& r, const Json& j, DeviceNumbers& n) { r.number(j, n.launch_seconds, 0, 1); }, {}, 0),
      number_field(
          "cache_bytes", "modelled: of its last cache; no prediction uses it yet", "integer",
          [](Reader& r, const Json& j, DeviceNumbers& n) { r.integer(j, n.cache_bytes, 0, Index{1} << 53); }, {}, 0)};
  return table;
}

// One of { "between": "hosts" | "ranks" | ["device a", "device b"] }.
void read_between(Reader& r, const Json& j, MeshLink& link) {
  static const std::vector<std::string> classes{"hosts", "ranks"};
  if (const auto* list = std::get_if<Json::Array>(&j.value)) {
    if (list->size() != 2) return r.complain(j, "expected two devices, found " + std::to_string(list->size()));
    link.between = MeshLink::Between::devices;
    r.list(j, [&](const Json& one, std::size_t i) { r.text(one, i == 0 ? link.a : link.b); });
    return;
  }
  std::string word;
  if (!std::holds_alternative<std::string>(j.value))
    return r.complain(j, "expected \"hosts\", \"ranks\" or a list of two devices, found " + Reader::kind(j));
  if (r.text(j, word, classes)) link.between = word == "hosts" ? MeshLink::Between::hosts : MeshLink::Between::ranks;
}

const Table<MeshLink>& link_table() {
  static const Table<MeshLink> table{
      {"between", "hosts (the network card of each, which its ranks share), ranks (of one host), or two devices", "text or list",
       true, read_between, schema_of_any({schema_of_words({"hosts", "ranks"}), schema_of_list(schema_of_type("text"))})},
      {"seconds", "of a message without bytes", "number", true,
       [](Reader& r, const Json& j, MeshLink& l) { r.number(j, l.seconds, 0, kMostLinkSeconds); }},
      {"bytes_per_second", "of large messages", "number", true,
       [](Reader& r, const Json& j, MeshLink& l) { r.number(j, l.bytes_per_second, 1, kMostPerSecond); }}};
  return table;
}

std::string kind_text(DeviceKind kind) {
  return "\"" + to_string(kind) + "\"";
}

// Refuses keys that have no meaning for this kind.
void refuse_foreign_keys(Reader& r, const Json& j, const Device& d) {
  const std::vector<DeviceKind> here{DeviceKind::cpu, DeviceKind::cuda, DeviceKind::emulated}, described{DeviceKind::modelled};
  const std::map<std::string, std::vector<DeviceKind>> only{{"threads", here},
                                                            {"cores", here},
                                                            {"flops_per_second", described},
                                                            {"memory_bytes_per_second", described},
                                                            {"granules", described},
                                                            {"efficiency", described},
                                                            {"launch_seconds", described},
                                                            {"cache_bytes", described},
                                                            {"index", {DeviceKind::cuda, DeviceKind::emulated}},
                                                            {"tf32", {DeviceKind::cuda}},
                                                            {"deterministic", {DeviceKind::cuda}},
                                                            {"isa", {DeviceKind::cpu, DeviceKind::emulated}},
                                                            {"library", {DeviceKind::cpu, DeviceKind::emulated}},
                                                            {"of", {DeviceKind::emulated}},
                                                            {"slowdown", {DeviceKind::emulated}}};
  for (const auto& [key, kinds] : only)
    if (const Json* found = j.find(key); found != nullptr && std::find(kinds.begin(), kinds.end(), d.kind) == kinds.end())
      r.in(key, [&, &key_ = key, &kinds_ = kinds] {
        r.complain(*found, "a device of kind " + kind_text(d.kind) + " has no \"" + key_ + "\"; it is a key of kind " +
                               kind_text(kinds_.front()));
      });
}

// An emulated device and its inner device describe one machine: what is written in either holds for both.
void join_inner(Reader& r, const Json& outer, const Json& inner, Device& d, Device& of) {
  for (const char* key : {"index", "threads", "cores", "isa", "library", "memory_bytes", "host"})
    if (outer.find(key) != nullptr && inner.find(key) != nullptr)
      r.in(key, [&] { r.complain(*outer.find(key), std::string("\"") + key + "\" is written here and in \"of\"; keep one"); });
  auto join = [&](const char* key, auto Device::*member) {
    if (inner.find(key) != nullptr)
      d.*member = of.*member;
    else
      of.*member = d.*member;
  };
  join("index", &Device::index);
  join("threads", &Device::threads);
  join("cores", &Device::cores);
  join("isa", &Device::isa);
  join("library", &Device::library);
  join("memory_bytes", &Device::memory_bytes);
  join("host", &Device::host);
}

// oneDNN's slowest kernels are those of SSE4.1: "generic" is for Eigen only. The device's keys are in `outer`, an emulated device's
// in `of` too.
void refuse_foreign_isa(Reader& r, const Json& outer, const Device& d) {
  const bool by_default = d.library.empty();
  if (d.isa != "generic" || (by_default ? cpu_libraries().front() : d.library) != "onednn") return;
  const auto complain_in = [&](const Json& device) {
    r.in("isa", [&] {
      r.complain(*device.find("isa"), std::string("oneDNN") +
                                          (by_default ? ", which computes where no \"library\" is named," : "") +
                                          " has no kernels for \"generic\"; expected \"library\": \"eigen\" beside it, or its "
                                          "slowest, \"sse41\"");
    });
  };
  if (outer.find("isa") != nullptr) return complain_in(outer);
  r.in("of", [&] { complain_in(*outer.find("of")); });
}

void require_numbers(Reader& r, const Json& j) {
  for (const char* key : {"flops_per_second", "memory_bytes_per_second"})
    if (j.find(key) == nullptr)
      r.complain(j, std::string("\"") + key +
                        "\" is missing; a modelled device is { \"kind\": \"modelled\", \"flops_per_second\": 60e12, "
                        "\"memory_bytes_per_second\": 2e12 }");
}

Device read_device(Reader& r, const Json& j) {
  Device d;
  const std::size_t before = r.complaints.list.size();
  r.object(j, device_table(), d);
  if (r.complaints.list.size() != before) return d;
  refuse_foreign_keys(r, j, d);
  if (d.kind == DeviceKind::cpu) refuse_foreign_isa(r, j, d);
  if (d.kind == DeviceKind::modelled) require_numbers(r, j);
  if (d.kind != DeviceKind::emulated) return d;
  const Json* inner = j.find("of");
  if (inner == nullptr || j.find("slowdown") == nullptr) {
    r.complain(
        j, std::string("\"") + (inner == nullptr ? "of" : "slowdown") +
               "\" is missing; an emulated device is { \"kind\": \"emulated\", \"of\": { \"kind\": \"cpu\" }, \"slowdown\": 3.0 }");
    return d;
  }
  Device of;
  r.in("of", [&] {
    const std::size_t good = r.complaints.list.size();
    r.object(*inner, device_table(), of);
    if (r.complaints.list.size() != good) return;
    if (of.kind == DeviceKind::emulated || of.kind == DeviceKind::modelled)
      return r.complain(*inner, "an emulated device slows down a cpu or a cuda device");
    refuse_foreign_keys(r, *inner, of);
    for (const char* key : {"name", "count"})
      if (const Json* found = inner->find(key))
        r.complain(*found, std::string("the ") + key + " belongs to the emulated device; leave it out here");
  });
  if (r.complaints.list.size() != before) return d;
  join_inner(r, j, *inner, d, of);
  if (of.kind == DeviceKind::cpu && r.complaints.list.size() == before) refuse_foreign_isa(r, j, of);
  d.of = std::make_shared<const Device>(std::move(of));
  return d;
}

// A device of the list, as often as its count says.
void read_devices(Reader& r, const Json& j, std::size_t place, MeshFile& m) {
  const Device device = read_device(r, j);
  std::int64_t count = 1;
  const Json* given = j.find("count");
  if (given != nullptr)
    r.in("count", [&] {
      if (!r.integer(*given, count, 1, kMostAlong)) return;
      if (static_cast<std::int64_t>(m.devices.size()) + count <= kMostInMesh) return;
      r.complain(*given, "the devices and their counts make more than " + std::to_string(kMostInMesh) + " ranks");
      count = 1;
    });
  for (std::int64_t k = 0; k < count; k++) {
    m.devices.push_back(device);
    m.places.push_back(place);
    Device& one = m.devices.back();
    if (given != nullptr && !device.name.empty()) one.name += "[" + std::to_string(k) + "]";
    if (device.kind == DeviceKind::cuda) one.index += static_cast<int>(k);
  }
}

Table<MeshFile> mesh_table(VersionKey version) {
  return {
      version_field<MeshFile>(version),
      {"axes", "a list of { \"name\", \"size\" }, or `auto`: the planner arranges the devices", "text or list", true,
       [](Reader& r, const Json& j, MeshFile& m) {
         if (const auto* word = std::get_if<std::string>(&j.value)) {
           m.open_axes = *word == "auto";
           if (!m.open_axes) r.complain(j, "expected \"auto\" or a list of { \"name\", \"size\" }, found " + Reader::kind(j));
           return;
         }
         const auto* list = std::get_if<Json::Array>(&j.value);
         if (list != nullptr && (list->empty() || list->size() > kMostAxes))
           return r.complain(
               j, list->empty() ? "a mesh has at least one axis" : "a mesh has at most " + std::to_string(kMostAxes) + " axes");
         r.list(j, [&](const Json& one, std::size_t) {
           Axis axis;
           r.object(one, axis_table(), axis);
           for (const Axis& other : m.axes)
             if (!axis.name.empty() && other.name == axis.name)
               r.complain(one, "axis \"" + axis.name + "\" is listed twice in the mesh");
           m.axes.push_back(std::move(axis));
         });
       },
       schema_of_any({schema_of_words({"auto"}), schema_of_list(object_schema(axis_table()))})},
      {"devices", "one per rank (or with a count), row-major in the axes", "list", true,
       [](Reader& r, const Json& j, MeshFile& m) {
         r.list(j, [&](const Json& one, std::size_t i) { read_devices(r, one, i, m); });
       },
       schema_of_list(object_schema(device_table()))},
      list_field<MeshFile>("links", "of a mesh with modelled devices: how ranks exchange messages; the most specific one counts",
                           &MeshFile::links, link_table(), false)};
}

// What is wrong with which devices a valid list of links is between.
void check_links(Reader& r, const Json& j, const MeshFile& m) {
  if (std::none_of(m.devices.begin(), m.devices.end(), [](const Device& d) { return d.kind == DeviceKind::modelled; }))
    return r.in("links", [&] {
      r.complain(*j.find("links"), "no device is modelled: the links of devices that are here are measured; leave this out");
    });
  for (std::size_t i = 0; i < m.links.size(); i++)
    if (const std::string wrong = link_mistake(m.links, i, m.devices); !wrong.empty())
      complain_below(r, j, "/links/" + std::to_string(i) + "/between", wrong);
}

// One axis, until the planner has arranged the devices.
void make_axis(Reader& r, const Json& j, MeshFile& m) {
  const std::size_t ranks = m.devices.size();
  if (ranks == 0 || ranks > static_cast<std::size_t>(kMostAlong))
    return r.in("devices", [&] {
      r.complain(*j.find("devices"),
                 "\"axes\": \"auto\" arranges 1 to " + std::to_string(kMostAlong) + " devices, found " + std::to_string(ranks));
    });
  m.axes = {{"all", static_cast<int>(ranks)}};
}

void check_whole(Reader& r, const Json& j, MeshFile& m) {
  constexpr std::int64_t kMost = std::numeric_limits<int>::max();
  std::int64_t ranks = 1;
  std::string product;
  for (const Axis& a : m.axes) {
    ranks = std::min(ranks * a.size, kMost);
    product += (product.empty() ? "" : " x ") + std::to_string(a.size);
  }
  if (m.axes.size() > 1) product += ranks == kMost ? ", more than 2e9," : " = " + std::to_string(ranks);
  const bool given = !m.axes.empty() && std::all_of(m.axes.begin(), m.axes.end(), [](const Axis& a) { return a.size > 0; });
  const auto& listed = std::get<Json::Array>(j.find("devices")->value);
  const bool counts = std::any_of(listed.begin(), listed.end(), [](const Json& d) { return d.find("count") != nullptr; });
  if (given && ranks != static_cast<std::int64_t>(m.devices.size()))
    r.in("devices", [&] {
      r.complain(*j.find("devices"), "the axes make " + product + " ranks, but " + std::to_string(m.devices.size()) +
                                         (m.devices.size() == 1 ? " device is" : " devices are") + " listed" +
                                         (counts ? ", each as often as its \"count\" says" : "") + "; list one device per rank");
    });
  std::unordered_set<std::string> names;
  for (std::size_t i = 0; i < m.devices.size(); i++) {
    if (m.devices[i].name.empty()) m.devices[i].name = "rank " + std::to_string(i);
    if (!names.insert(m.devices[i].name).second)
      complain_below(r, j, "/devices/" + std::to_string(m.places[i]) + "/name",
                     "two devices are called \"" + m.devices[i].name + "\"; name them apart");
  }
}

Json to_json(const DeviceNumbers& n) {
  const DeviceNumbers usual;
  Json out, granules, efficiency;
  const auto set = [](Json& to, const char* key, auto value, auto otherwise) {
    if (value != otherwise) to.set(key, value);
  };
  out.set("flops_per_second", n.flops_per_second).set("memory_bytes_per_second", n.memory_bytes_per_second);
  set(granules, "filters", n.granules.filters, usual.granules.filters);
  set(granules, "channels", n.granules.channels, usual.granules.channels);
  set(granules, "batch", n.granules.batch, usual.granules.batch);
  set(granules, "rows", n.granules.rows, usual.granules.rows);
  set(efficiency, "conv2d", n.efficiency.conv2d, usual.efficiency.conv2d);
  set(efficiency, "depthwise", n.efficiency.depthwise, usual.efficiency.depthwise);
  set(efficiency, "dense", n.efficiency.dense, usual.efficiency.dense);
  set(efficiency, "map", n.efficiency.map, usual.efficiency.map);
  for (const auto& [key, part] : {std::pair{"granules", &granules}, {"efficiency", &efficiency}})
    if (std::holds_alternative<Json::Object>(part->value)) out.set(key, *part);
  set(out, "launch_seconds", n.launch_seconds, usual.launch_seconds);
  set(out, "cache_bytes", n.cache_bytes, usual.cache_bytes);
  return out;
}

}  // namespace

Json to_json(const Device& d) {
  Json out;
  if (!d.name.empty()) out.set("name", d.name);
  out.set("kind", to_string(d.kind));
  if (d.kind == DeviceKind::emulated && d.of) {
    Device of = *d.of;
    of.name.clear();
    return std::move(out.set("of", to_json(of)).set("slowdown", d.slowdown));
  }
  if (d.kind == DeviceKind::modelled) {
    if (d.memory_bytes > 0) out.set("memory_bytes", d.memory_bytes);
    if (!d.host.empty()) out.set("host", d.host);
    Json numbers = to_json(*d.numbers);
    for (Json::Member& m : std::get<Json::Object>(numbers.value)) out.set(m.key, std::move(m.value));
    return out;
  }
  if (d.kind == DeviceKind::cuda) out.set("index", d.index);
  if (d.tf32) out.set("tf32", true);
  if (!d.deterministic) out.set("deterministic", false);
  out.set("threads", d.threads);
  if (!d.cores.empty()) {
    Json::Array cores;
    for (int c : d.cores) cores.push_back(c);
    out.set("cores", std::move(cores));
  }
  if (!d.isa.empty()) out.set("isa", d.isa);
  if (!d.library.empty()) out.set("library", d.library);
  if (d.memory_bytes > 0) out.set("memory_bytes", d.memory_bytes);
  if (!d.host.empty()) out.set("host", d.host);
  return out;
}

MeshParts read_mesh_parts(Reader& reader, const Json& json, VersionKey version) {
  const std::size_t before = reader.complaints.list.size();
  MeshFile file;
  MeshParts parts;
  reader.object(json, mesh_table(version), file);
  auto is_list = [&](const char* key) {
    return json.find(key) != nullptr && std::holds_alternative<Json::Array>(json.find(key)->value);
  };
  auto is_right = [&](const std::string& key) {
    const std::string at = reader.path + "/" + key;
    const auto& list = reader.complaints.list;
    return is_list(key.c_str()) &&
           std::none_of(list.begin() + static_cast<std::ptrdiff_t>(before), list.end(),
                        [&](const Complaints::One& one) { return one.path == at || one.path.starts_with(at + "/"); });
  };
  const bool devices = is_right("devices"), axes = file.open_axes ? devices : is_right("axes");
  parts.open_axes = file.open_axes;
  if (file.open_axes && is_list("devices")) make_axis(reader, json, file);
  if ((file.open_axes || is_list("axes")) && is_list("devices")) check_whole(reader, json, file);
  if (is_list("devices") && is_right("links")) check_links(reader, json, file);
  if (axes) parts.axes = file.axes;
  if (devices) parts.devices = file.devices;
  if (reader.complaints.list.size() == before)
    parts.whole = Mesh(std::move(file.axes), std::move(file.devices), std::move(file.links));
  return parts;
}

namespace {

// Pairs of ranks of which no link says how they exchange messages. Of the devices of one host whose names differ in a number alone,
// two stand for all.
std::vector<std::string> absent_links(const Mesh& mesh) {
  std::map<std::pair<std::string, std::string>, std::vector<int>> of_name;  // by host and name
  for (int r = 0; r < mesh.ranks(); r++) {
    std::string name = without_number(mesh.device(r).name);
    name.resize(name.find_last_not_of("0123456789") + 1);
    std::vector<int>& two = of_name[{mesh.device(r).host, name}];
    if (two.size() < 2) two.push_back(r);
  }
  std::vector<int> ranks;
  for (const auto& [which, two] : of_name) ranks.insert(ranks.end(), two.begin(), two.end());
  std::vector<std::string> notes;
  for (const bool one_host : {true, false})
    for (std::size_t i = 0, found = 0; i < ranks.size() && found == 0; i++)
      for (std::size_t k = i + 1; k < ranks.size() && found == 0; k++) {
        const Device &a = mesh.device(ranks[i]), &b = mesh.device(ranks[k]);
        const bool described = a.kind == DeviceKind::modelled || b.kind == DeviceKind::modelled;
        if (!described || (a.host == b.host) != one_host || mesh.link(ranks[i], ranks[k]) != nullptr) continue;
        found = 1;
        notes.push_back(fmt::format(
            "no link says how \"{}\" and \"{}\", {}, exchange messages: 5 us and 2e9 bytes per second are assumed; add {{ "
            "\"between\": \"{}\", \"seconds\": ..., \"bytes_per_second\": ... }} to \"links\"",
            a.name, b.name, one_host ? "of one host" : "of different hosts", one_host ? "ranks" : "hosts"));
      }
  return notes;
}

}  // namespace

std::vector<std::string> mesh_notes(const Mesh& mesh) {
  constexpr std::size_t kMostNamed = 8;  // devices
  std::map<std::pair<std::string, int>, std::vector<int>> ranks;
  for (int r = 0; r < mesh.ranks(); r++) {
    const Device& device = mesh.device(r);
    for (const int core : device.cores.empty() ? driven(device).cores : device.cores) ranks[{device.host, core}].push_back(r);
  }
  std::map<std::pair<std::string, std::vector<int>>, std::vector<int>> cores;  // by host and the ranks that share the cores
  for (const auto& [where, several] : ranks)
    if (several.size() > 1) cores[{where.first, several}].push_back(where.second);
  std::vector<std::string> notes;
  for (const auto& [which, shared] : cores) {
    const auto& [host, several] = which;
    std::string names, numbers;
    for (std::size_t i = 0; i < std::min(several.size(), kMostNamed); i++)
      names += (i == 0 ? "\"" : i + 1 == several.size() ? "\" and \"" : "\", \"") + mesh.device(several[i]).name;
    names += "\"";
    if (several.size() > kMostNamed) names += " and " + std::to_string(several.size() - kMostNamed) + " more";
    for (const int core : shared) numbers += (numbers.empty() ? "" : ", ") + std::to_string(core);
    notes.push_back("devices " + names + " are bound to " + (shared.size() == 1 ? "the same core, " : "the same cores, ") +
                    numbers + (host.empty() ? "" : " of " + host) + ", and take turns there; give each its own \"cores\"");
  }
  for (std::string& note : absent_links(mesh)) notes.push_back(std::move(note));
  int threads = 0;
  for (int r = 0; r < mesh.ranks(); r++)
    if (mesh.device(r).host.empty() && mesh.device(r).kind != DeviceKind::modelled)
      threads += std::max(1, driven(mesh.device(r)).threads);
  if (const CpuQuota quota = cpu_quota(); quota.cores < threads)
    notes.push_back(
        fmt::format("the {} threads of the devices here may take the time of {:.2g} cores together (CPU quota of {}): they are "
                    "stopped in turn, and no measurement holds; raise the quota, or give the mesh fewer devices or threads",
                    threads, quota.cores, quota.group));
  return notes;
}

Json mesh_schema(VersionKey version) {
  return object_schema(mesh_table(version));
}

std::optional<Mesh> read_mesh(Reader& reader, const Json& json, VersionKey version) {
  return read_mesh_parts(reader, json, version).whole;
}

Json to_json(const Mesh& mesh) {
  Json out;
  out.set("version", 1);
  Json::Array axes, devices;
  for (const Axis& a : mesh.axes()) axes.push_back(std::move(Json().set("name", a.name).set("size", a.size)));
  for (const Device& d : mesh.devices()) devices.push_back(to_json(d));
  out.set("axes", std::move(axes)).set("devices", std::move(devices));
  if (mesh.links().empty()) return out;
  Json links{Json::Array{}};
  for (const MeshLink& l : mesh.links()) {
    Json between = l.between == MeshLink::Between::devices ? Json(Json::Array{l.a, l.b})
                                                           : Json(l.between == MeshLink::Between::hosts ? "hosts" : "ranks");
    Json one;
    one.set("between", std::move(between)).set("seconds", l.seconds).set("bytes_per_second", l.bytes_per_second);
    links.push(std::move(one));
  }
  return std::move(out.set("links", std::move(links)));
}

Mesh Mesh::load(const std::filesystem::path& file) {
  return load_json(file, [](Reader& r, const Json& j) { return read_mesh(r, j, VersionKey::required); });
}

}  // namespace motley
