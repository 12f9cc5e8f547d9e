// What most tests include, parsed once for all of them. A test goes on including what it uses.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#ifndef __clang__  // clang 14 crashes on templates of ours that a precompiled header holds
#include "mezzo/mezzo.h"
#endif
