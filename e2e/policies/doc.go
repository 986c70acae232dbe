// Package policies tests the policies of config/policies on a real API server, with an operator: which writes of
// managed objects they warn of, stamp and refuse, and which they let pass.
package policies
