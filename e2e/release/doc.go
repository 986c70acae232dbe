// Command release builds what users install: the container image of the operator and the
// files of a release. The Makefile runs it:
//
//	make image    # bin/image, an OCI layout, which is also loaded into a Docker engine if one runs
//	make push     # the same image, to a registry
//	make release  # dist: manifests, the image, the command line, SBOMs and checksums
//
// It is the only description of the image: there is no Dockerfile. It pulls no base image and
// needs no registry and no container engine.
//
// The same commit, version and version of Go give the same bytes, on every machine: times are
// those of the commit or 0, entries are sorted, and programs hold no paths.
package main
