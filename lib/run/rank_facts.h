// SPDX-License-Identifier: Apache-2.0
// What each rank runs on, and with which versions: for run.json, and to name what differs between unlike nodes.
#pragma once
#include <motley/backend.h>
#include <motley/transport.h>

#include <string>
#include <vector>

#include "base/json.h"

namespace motley {

struct RankFacts {
  std::string host{};     // its name
  std::string model{};    // of the device
  std::string library{};  // that computes: "oneDNN 2.6.3"
  std::string mpi{};      // "MPICH 4.0.2"
  std::string motley{};   // version
  std::string system{};   // "Linux 6.1.0-18-amd64, glibc 2.36"
  bool operator==(const RankFacts&) const = default;
};

// Collective: every rank's, on every rank. backend: what this rank computes with.
std::vector<RankFacts> gather_facts(Transport& transport, const Backend& backend);
// One sentence for each kind of software of which ranks have unlike versions: motley, MPI, each library of kernels, glibc.
std::vector<std::string> version_notes(const std::vector<RankFacts>& ranks);

Json to_json(const RankFacts& facts);
const Table<RankFacts>& rank_facts_table();

}  // namespace motley
