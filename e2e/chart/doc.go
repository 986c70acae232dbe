// Package chart tests config/chart with helm: that it renders the objects of kustomize, that its
// schema refuses what it does not know, and install, upgrade and uninstall on a real API server.
package chart
