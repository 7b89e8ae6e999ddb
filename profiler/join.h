// SPDX-License-Identifier: Apache-2.0
// Joins the measurements of all ranks into one profile.
#pragma once
#include <motley/backend.h>
#include <motley/profile.h>
#include <motley/transport.h>

namespace motley {

// Copies between this rank's host and its device, if messages are staged there: one or none, as device 0. budget_seconds: for the
// whole measurement.
std::vector<DeviceLink> own_device_links(Backend& backend, const Transport& transport, double budget_seconds);

// Measures the links between all ranks (none for a single rank); adds a note if ranks shared cores in that time. Collective.
void add_links(Profile& profile, Backend& backend, Transport& transport, double budget_seconds);

// `mine` has this rank's device last. Returns every rank's devices, points, device links and notes, in rank order. Collective; the
// same on every rank.
Profile joined(Transport& transport, const Profile& mine);

}  // namespace motley
