// Package wanted has objects of manifests for the tests of the packages below pkg/reconcile.
package wanted
