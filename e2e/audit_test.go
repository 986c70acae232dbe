package e2e

import "github.com/vidra-operator/vidra/e2e/suite"

// operatorUser is who the operator is for the API server.
var operatorUser = suite.OperatorUser
