// The main() of the example programs with options: what becomes of options, --help and errors.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>

#include "mezzo/core/error.h"

/// Says what went wrong, and returns the status.
inline int end_program(int status, const char* error) {
  std::fprintf(stderr, "%s\n", error);
  return status;
}

/// Calls run(options) with the options that add_options(app, options) names. Returns the exit status: 0; 2
/// for options that are wrong, 1 for other errors, each with a line on stderr: `end` says what is wrong.
template <class Options>
int run_program(int argc, char** argv, const char* name, const char* description,
                void (*add_options)(CLI::App&, Options&), void (*run)(const Options&),
                int (*end)(int status, const char* error) = end_program) {
  CLI::App app(description);
  Options options;
  add_options(app, options);
  try {
    app.parse(argc, argv);
    run(options);
    return 0;
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    std::fprintf(stderr, "%s: %s; --help lists the flags\n", name, error.what());
    return 2;
  } catch (const mezzo::ValueError& error) {
    return end(2, error.what());
  } catch (const std::exception& error) {
    return end(1, error.what());
  }
}
