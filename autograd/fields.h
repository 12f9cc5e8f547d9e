// MEZZO_FIELDS: fields() of a struct of attributes (autograd/attrs.h) whose members have the names that they
// are known by, so that each is named once.
#pragma once

#include <tuple>

#include "mezzo/autograd/attrs.h"

/// In the struct: `MEZZO_FIELDS(AdamOptions, lr, beta1, beta2)`, for up to 27 members. fields() is a
/// template, so that a file which does not call it makes no list; it needs the struct's name for that.
#define MEZZO_FIELDS(Struct, ...)                                       \
  template <class O = Struct>                                           \
  static constexpr auto fields() {                                      \
    return std::tuple{MEZZO_FIELDS_SCAN(MEZZO_FIELDS_OF(__VA_ARGS__))}; \
  }

// A macro does not expand itself: it leaves its own call for the rest of the members, which the next scan of
// the text expands.
#define MEZZO_FIELDS_OF(member, ...) \
  mezzo::attr(#member, &O::member), __VA_OPT__(MEZZO_FIELDS_REST MEZZO_FIELDS_NONE(__VA_ARGS__))
#define MEZZO_FIELDS_REST() MEZZO_FIELDS_OF
#define MEZZO_FIELDS_NONE ()
#define MEZZO_FIELDS_SCAN(...) MEZZO_FIELDS_SCAN_9(MEZZO_FIELDS_SCAN_9(MEZZO_FIELDS_SCAN_9(__VA_ARGS__)))
#define MEZZO_FIELDS_SCAN_9(...) MEZZO_FIELDS_SCAN_3(MEZZO_FIELDS_SCAN_3(MEZZO_FIELDS_SCAN_3(__VA_ARGS__)))
#define MEZZO_FIELDS_SCAN_3(...) MEZZO_FIELDS_SCAN_1(MEZZO_FIELDS_SCAN_1(MEZZO_FIELDS_SCAN_1(__VA_ARGS__)))
#define MEZZO_FIELDS_SCAN_1(...) __VA_ARGS__
