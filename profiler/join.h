// SPDX-License-Identifier: Apache-2.0
// What each rank has measured by itself, as one profile.
#pragma once
#include <motley/backend.h>
#include <motley/profile.h>
#include <motley/transport.h>

namespace motley {

// Copies between this rank's host and its device, where messages are staged there: one or none, as device 0. budget_seconds: of all
// that is measured.
std::vector<DeviceLink> own_device_links(Backend& backend, const Transport& transport, double budget_seconds);

// Measures the links between all ranks, none of one rank; a note where ranks shared cores meanwhile. Collective.
void add_links(Profile& profile, Backend& backend, Transport& transport, double budget_seconds);

// `mine` has this rank's device last. Every rank's devices, points, device links and notes, in rank order. Collective; the same on
// every rank.
Profile joined(Transport& transport, const Profile& mine);

}  // namespace motley
