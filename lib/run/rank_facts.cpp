// SPDX-License-Identifier: Apache-2.0
#include "run/rank_facts.h"

#include <fmt/format.h>
#include <gnu/libc-version.h>
#include <sys/utsname.h>

#include <map>

#include "base/host.h"
#include "base/json_fields.h"
#include "base/version.h"
#include "mesh/mpi_session.h"

namespace motley {

namespace {

constexpr const char* kLibc = "glibc ";

std::string system_text() {
  utsname system{};
  const std::string kernel = uname(&system) == 0 ? fmt::format("{} {}, ", system.sysname, system.release) : "";
  return kernel + kLibc + gnu_get_libc_version();
}

// "oneDNN 2.6.3" -> {"oneDNN", "2.6.3"}; a name without a number is its own version.
std::pair<std::string, std::string> name_and_version(const std::string& text) {
  const std::size_t at = text.find_first_of("0123456789");
  if (at == std::string::npos || at == 0) return {text, text};
  return {text.substr(0, text.find_last_not_of(' ', at - 1) + 1), text.substr(at)};
}

}  // namespace

std::vector<RankFacts> gather_facts(Transport& transport, const Backend& backend) {
  const RankFacts mine{host_name(), backend.model(), backend.library(), mpi_version(), kMotleyVersion, system_text()};
  const std::string text = to_text(to_json(mine));
  std::vector<RankFacts> out;
  for (const std::vector<std::byte>& bytes : transport.gather_all(std::as_bytes(std::span(text)))) {
    Complaints complaints;
    const auto json =
        read_json("a rank's versions", {reinterpret_cast<const char*>(bytes.data()), bytes.size()}, complaints, kByMotley);
    Reader reader{complaints};
    if (RankFacts& its = out.emplace_back(); json) reader.object(*json, rank_facts_table(), its);
    complaints.raise(Exit::internal);
  }
  return out;
}

std::vector<std::string> version_notes(const std::vector<RankFacts>& ranks) {
  std::map<std::string, std::map<std::string, std::vector<std::string>>> known;  // name -> version -> ranks with their hosts
  for (std::size_t r = 0; r < ranks.size(); r++) {
    const RankFacts& its = ranks[r];
    const std::size_t libc = its.system.rfind(kLibc);
    std::vector<std::pair<std::string, std::string>> software{
        {"motley", its.motley}, name_and_version(its.mpi), name_and_version(its.library)};
    if (libc != std::string::npos) software.push_back(name_and_version(its.system.substr(libc)));
    for (const auto& [name, version] : software) known[name][version].push_back(fmt::format("rank {} on {}", r, its.host));
  }
  std::vector<std::string> out;
  for (const auto& [name, versions] : known) {
    if (versions.size() < 2) continue;
    std::string text = "the ranks have unlike versions of " + name + ":";
    for (const auto& [version, which] : versions)
      text += fmt::format("{} {} ({}{})", text.ends_with(':') ? "" : ",", version, which.front(),
                          which.size() > 1 ? fmt::format(" and {} more", which.size() - 1) : "");
    out.push_back(text + "; install the same on all hosts, or repeat `motley verify` there");
  }
  return out;
}

Json to_json(const RankFacts& facts) {
  Json out;
  out.set("host", facts.host).set("model", facts.model).set("library", facts.library).set("mpi", facts.mpi);
  return std::move(out.set("motley", facts.motley).set("system", facts.system));
}

const Table<RankFacts>& rank_facts_table() {
  static const Table<RankFacts> table{text_field("host", "its name", &RankFacts::host),
                                      text_field("model", "of the device", &RankFacts::model),
                                      text_field("library", "that computes", &RankFacts::library),
                                      text_field("mpi", "name and version", &RankFacts::mpi),
                                      text_field("motley", "version", &RankFacts::motley),
                                      text_field("system", "kernel and C library", &RankFacts::system)};
  return table;
}

}  // namespace motley
