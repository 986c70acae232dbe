// Package metrics counts reverts, delayed reverts, and what the backstop finds.
package metrics
