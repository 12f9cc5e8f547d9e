// An extension module of Python, `import mezzo_probe; mezzo_probe.trained`, which uses the library while it
// is imported. Python's headers may not be there; what follows of them is part of its stable ABI.
#include <cstddef>

extern "C" {
struct PyObject;
struct PyModuleDef {
  std::ptrdiff_t reference_count;
  void* type;
  void* init;
  std::ptrdiff_t index;
  void* copy;
  const char* name;
  const char* doc;
  std::ptrdiff_t size;
  void *methods, *slots, *traverse, *clear, *free;
};
PyObject* PyModule_Create2(PyModuleDef* definition, int api_version);
int PyModule_AddIntConstant(PyObject* module, const char* name, long value);
int mezzo_plugin_train();

PyObject* PyInit_mezzo_probe() {
  static PyModuleDef definition{1,  nullptr, nullptr, 0,       nullptr, "mezzo_probe", nullptr,
                                -1, nullptr, nullptr, nullptr, nullptr, nullptr};
  PyObject* const module = PyModule_Create2(&definition, 3);
  if (module != nullptr) PyModule_AddIntConstant(module, "trained", mezzo_plugin_train() == 0 ? 1 : 0);
  return module;
}
}
