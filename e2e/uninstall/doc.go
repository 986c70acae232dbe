// Package uninstall tests the removal of Vidra, on purpose and by mistake, on a control plane of its own.
package uninstall
