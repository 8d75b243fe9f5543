# find_package(interop): the headers that all exported folders share, for code that takes interop::span or interop_slice_f32
# without knowing which kernels come later. An exported folder NAME brings its own copy with find_package(NAME).
#
#   cmake -B build -Dinterop_DIR=$(interop config --cmakedir)
#   target_link_libraries(app PRIVATE interop::headers)
if(NOT TARGET interop::headers)
  add_library(interop::headers INTERFACE IMPORTED)
  get_filename_component(_interop_include "${CMAKE_CURRENT_LIST_DIR}/../include" ABSOLUTE)
  set_target_properties(interop::headers PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${_interop_include}")
  unset(_interop_include)
endif()
