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
constexpr std::int64_t kMostAlong = 4096, kMostDeviceThreads = 4096, kMostCores = 65536;

struct MeshFile {
  std::vector<Axis> axes{};
  std::vector<Device> devices{};
};

template <class T>
Field<T> integer_within(const char* name, const char* doc, int T::*member, std::int64_t lo, std::int64_t hi,
                        bool required = false) {
  return {name,
          doc,
          "integer",
          required,
          [=](Reader& r, const Json& j, T& out) {
            std::int64_t v = 0;
            if (r.integer(j, v, lo, hi)) out.*member = static_cast<int>(v);
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
  static const std::vector<std::string> kinds{"cpu", "cuda", "emulated"};
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

const Table<Device>& device_table() {
  static const Table<Device> table{
      {"name", "unique in its mesh; default: `rank N`", "text", false, read_device_name},
      word_field("kind", "cpu, cuda or emulated", &Device::kind, device_kinds(), true),
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
                    &Device::deterministic)};
  return table;
}

std::string kind_text(DeviceKind kind) {
  return "\"" + to_string(kind) + "\"";
}

// Refuses keys that have no meaning for this kind.
void refuse_foreign_keys(Reader& r, const Json& j, const Device& d) {
  const std::map<std::string, std::vector<DeviceKind>> only{{"index", {DeviceKind::cuda, DeviceKind::emulated}},
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

Device read_device(Reader& r, const Json& j) {
  Device d;
  const std::size_t before = r.complaints.list.size();
  r.object(j, device_table(), d);
  if (r.complaints.list.size() != before) return d;
  refuse_foreign_keys(r, j, d);
  if (d.kind == DeviceKind::cpu) refuse_foreign_isa(r, j, d);
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
    if (of.kind == DeviceKind::emulated) return r.complain(*inner, "an emulated device slows down a cpu or a cuda device");
    refuse_foreign_keys(r, *inner, of);
    if (const Json* name = inner->find("name")) r.complain(*name, "the name belongs to the emulated device; leave it out here");
  });
  if (r.complaints.list.size() != before) return d;
  join_inner(r, j, *inner, d, of);
  if (of.kind == DeviceKind::cpu && r.complaints.list.size() == before) refuse_foreign_isa(r, j, of);
  d.of = std::make_shared<const Device>(std::move(of));
  return d;
}

Table<MeshFile> mesh_table(VersionKey version) {
  return {version_field<MeshFile>(version),
          {"axes", "a list of { \"name\", \"size\" }", "list", true,
           [](Reader& r, const Json& j, MeshFile& m) {
             if (refuse_auto(r, j, "write a list of { \"name\", \"size\" }")) return;
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
           schema_of_list(object_schema(axis_table()))},
          {"devices", "one per rank, row-major in the axes", "list", true,
           [](Reader& r, const Json& j, MeshFile& m) {
             r.list(j, [&](const Json& one, std::size_t) { m.devices.push_back(read_device(r, one)); });
           },
           schema_of_list(object_schema(device_table()))}};
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
  // "count" has been complained about: the listed devices are then not meant to be one per rank
  const bool counts = std::any_of(listed.begin(), listed.end(), [](const Json& d) { return d.find("count") != nullptr; });
  if (given && !counts && ranks != static_cast<std::int64_t>(m.devices.size()))
    r.in("devices", [&] {
      r.complain(*j.find("devices"), "the axes make " + product + " ranks, but " + std::to_string(m.devices.size()) +
                                         (m.devices.size() == 1 ? " device is" : " devices are") +
                                         " listed; list one device per rank");
    });
  std::unordered_set<std::string> names;
  for (std::size_t i = 0; i < m.devices.size(); i++) {
    if (m.devices[i].name.empty()) m.devices[i].name = "rank " + std::to_string(i);
    if (!names.insert(m.devices[i].name).second)
      complain_below(r, j, "/devices/" + std::to_string(i) + "/name",
                     "two devices are called \"" + m.devices[i].name + "\"; name them apart");
  }
}

Json to_json(const Device& d) {
  Json out;
  if (!d.name.empty()) out.set("name", d.name);
  out.set("kind", to_string(d.kind));
  if (d.kind == DeviceKind::emulated && d.of) {
    Device of = *d.of;
    of.name.clear();
    return std::move(out.set("of", to_json(of)).set("slowdown", d.slowdown));
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

}  // namespace

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
  const bool axes = is_right("axes"), devices = is_right("devices");
  if (is_list("axes") && is_list("devices")) check_whole(reader, json, file);
  if (axes) parts.axes = file.axes;
  if (devices) parts.devices = file.devices;
  if (reader.complaints.list.size() == before) parts.whole = Mesh(std::move(file.axes), std::move(file.devices));
  return parts;
}

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
  int threads = 0;
  for (int r = 0; r < mesh.ranks(); r++)
    if (mesh.device(r).host.empty()) threads += std::max(1, driven(mesh.device(r)).threads);
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
  return out;
}

Mesh Mesh::load(const std::filesystem::path& file) {
  return load_json(file, [](Reader& r, const Json& j) { return read_mesh(r, j, VersionKey::required); });
}

}  // namespace motley
