// SPDX-License-Identifier: Apache-2.0
#include <motley/error.h>
#include <motley/mesh.h>

#include <algorithm>
#include <limits>
#include <set>

#include "mesh/mesh_json.h"

namespace motley {

namespace {

void check_word(const Device& d, const std::string& key, const std::string& word, const std::vector<std::string>& known) {
  if (!word.empty() && std::find(known.begin(), known.end(), word) == known.end())
    throw UserError("device \"" + d.name + "\": " + key + " is \"" + word + "\"" + did_you_mean(word, known));
}

// What a mesh file checks by key.
void check_device(const Device& d) {
  const Device& real = driven(d);
  check_word(d, "isa", real.isa, isa_names());
  check_word(d, "library", real.library, cpu_library_names());
  if (real.memory_bytes < 0 || real.threads < 1 || real.index < 0)
    throw UserError("device \"" + d.name + "\": memory_bytes and index are at least 0, threads at least 1");
  if ((real.kind == DeviceKind::modelled) != (real.numbers != nullptr) || (d.of && real.kind == DeviceKind::modelled))
    throw UserError("device \"" + d.name + "\": a modelled device has numbers, and no other device has");
  if (real.numbers == nullptr) return;
  const DeviceNumbers& n = *real.numbers;
  const auto& [filters, channels, batch, rows] = n.granules;
  const auto& [conv2d, depthwise, dense, map] = n.efficiency;
  if (!(n.flops_per_second > 0) || !(n.memory_bytes_per_second > 0) || !(n.launch_seconds >= 0) || n.cache_bytes < 0 ||
      std::min({filters, channels, batch, rows}) < 1 || !(std::min({conv2d, depthwise, dense, map}) > 0))
    throw UserError("device \"" + d.name +
                    "\": flops_per_second, memory_bytes_per_second and efficiencies are above 0, launch_seconds and cache_bytes at "
                    "least 0, granules at least 1");
}

}  // namespace

std::string without_number(const std::string& name) {
  const std::size_t open = name.rfind('[');
  const bool numbered = open != std::string::npos && name.ends_with(']') && open + 2 < name.size() &&
                        std::all_of(name.begin() + static_cast<std::ptrdiff_t>(open) + 1, name.end() - 1,
                                    [](char c) { return c >= '0' && c <= '9'; });
  return numbered ? name.substr(0, open) : name;
}

std::string link_mistake(const std::vector<MeshLink>& links, std::size_t i, const std::vector<Device>& devices) {
  const MeshLink& link = links[i];
  for (std::size_t k = 0; k < i; k++)
    if (links[k].between == link.between && std::minmax(links[k].a, links[k].b) == std::minmax(link.a, link.b))
      return "a link between these is listed twice";
  if (link.between != MeshLink::Between::devices) return "";
  std::set<std::string> known;
  int of_a = 0;
  for (const Device& d : devices) {
    known.insert({d.name, without_number(d.name)});
    of_a += d.name == link.a || without_number(d.name) == link.a ? 1 : 0;
  }
  for (const std::string& name : {link.a, link.b})
    if (!known.contains(name)) return "the mesh has no device \"" + name + "\"" + did_you_mean(name, {known.begin(), known.end()});
  return link.a == link.b && of_a < 2 ? "expected two devices, found \"" + link.a + "\" twice" : "";
}

Mesh::Mesh(std::vector<Axis> axes, std::vector<Device> devices, std::vector<MeshLink> links)
    : axes_(std::move(axes)), devices_(std::move(devices)), links_(std::move(links)) {
  std::size_t ranks = 1;
  std::set<std::string> names;
  if (axes_.empty()) throw UserError("a mesh has at least one axis");
  for (const Axis& a : axes_) {
    if (!is_name(a.name))
      throw UserError("\"" + a.name + "\" is not a valid axis name: letters, digits, _ and -, a letter or _ first");
    if (!names.insert(a.name).second) throw UserError("axis \"" + a.name + "\" is listed twice in the mesh");
    if (a.size < 1 || a.size > 4096)
      throw UserError("axis \"" + a.name + "\" has the size " + std::to_string(a.size) + "; expected 1 to 4096");
    ranks *= static_cast<std::size_t>(a.size);
    if (ranks > std::numeric_limits<int>::max()) throw UserError("the axes make more than 2e9 ranks");
  }
  if (ranks != devices_.size())
    throw UserError("the axes make " + std::to_string(ranks) + " ranks, but " + std::to_string(devices_.size()) +
                    " devices are listed; list one device per rank");
  names.clear();
  for (std::size_t r = 0; r < devices_.size(); r++) {
    if (devices_[r].name.empty()) devices_[r].name = "rank " + std::to_string(r);
    if (!names.insert(devices_[r].name).second) throw UserError("two devices are called \"" + devices_[r].name + "\"");
    check_device(devices_[r]);
  }
  if (!links_.empty() &&
      std::none_of(devices_.begin(), devices_.end(), [](const Device& d) { return d.kind == DeviceKind::modelled; }))
    throw UserError("links are of a mesh with modelled devices; those of other devices are measured");
  for (std::size_t i = 0; i < links_.size(); i++) {
    if (!(links_[i].seconds >= 0) || !(links_[i].bytes_per_second > 0))
      throw UserError("a link's seconds are at least 0, its bytes_per_second above 0");
    if (const std::string wrong = link_mistake(links_, i, devices_); !wrong.empty()) throw UserError("links: " + wrong);
  }
}

const MeshLink* Mesh::link(int from, int to) const {
  const Device &a = device(from), &b = device(to);
  const auto joins = [](const MeshLink& l, const std::string& x, const std::string& y) {
    return (l.a == x && l.b == y) || (l.a == y && l.b == x);
  };
  const auto how_specific = [&](const MeshLink& l) {
    if (l.between == MeshLink::Between::hosts) return a.host != b.host ? 1 : 0;
    if (l.between == MeshLink::Between::ranks) return a.host == b.host ? 1 : 0;
    const std::string of_a = without_number(a.name), of_b = without_number(b.name);
    if (joins(l, a.name, b.name)) return 4;
    return joins(l, a.name, of_b) || joins(l, of_a, b.name) ? 3 : joins(l, of_a, of_b) ? 2 : 0;
  };
  const MeshLink* best = nullptr;
  int most = 0;
  for (const MeshLink& l : links_)
    if (const int specific = how_specific(l); specific > most) {
      most = specific;
      best = &l;
    }
  return best;
}

Coord Mesh::coord(int rank) const {
  Coord c(axes_.size());
  for (std::size_t i = axes_.size(); i-- > 0;) {
    c[i] = rank % axes_[i].size;
    rank /= axes_[i].size;
  }
  return c;
}

int Mesh::rank(const Coord& coord) const {
  int r = 0;
  for (std::size_t i = 0; i < axes_.size(); i++) r = r * axes_[i].size + coord[i];
  return r;
}

int Mesh::axis(const std::string& name) const {
  std::vector<std::string> known;
  for (std::size_t i = 0; i < axes_.size(); i++) {
    if (axes_[i].name == name) return static_cast<int>(i);
    known.push_back(axes_[i].name);
  }
  throw UserError("the mesh has no axis \"" + name + "\"" + did_you_mean(name, known));
}

}  // namespace motley
