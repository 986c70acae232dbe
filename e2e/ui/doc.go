// Package ui tests `vidra ui` in a headless Chromium, against a real API server and an operator. Without Chromium, those
// tests are skipped by name.
package ui
